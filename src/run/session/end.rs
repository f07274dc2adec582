//! [`SessionEnd`]: how a run ended, as its files have it.

use crate::{exit::Code, record::RunEnd, world::cause};

/// How a run ended, as its files have it.
pub(in crate::run) struct SessionEnd {
    /// The exit code.
    pub(in crate::run) code: Code,
    /// What there is to say of the files beside that.
    pub(super) said: Vec<String>,
    /// A sentence for each file that lacks something.
    pub(in crate::run) missing: Vec<String>,
}

/// Returns how a run ends with `code`, if files were not `missing` something.
pub(super) fn run_end(code: Code, message: &str, missing: &[String]) -> RunEnd {
    let code = code_if(code, missing);
    let mut sentences: Vec<&str> = vec![message];
    sentences.extend(missing.iter().map(String::as_str));
    sentences.retain(|sentence| !sentence.is_empty());
    RunEnd {
        code: code as u8,
        name: code,
        message: sentences.join("; "),
        failed: cause::first().map(Into::into),
    }
}

/// Returns the exit code of a run that would end with `code` if files were not `missing` something.
pub(super) fn code_if(code: Code, missing: &[String]) -> Code {
    match code {
        // The others say more.
        Code::Fine | Code::Stopped if !missing.is_empty() => Code::Disk,
        code => code,
    }
}

/// Says what there is to say of files.
pub(super) fn say_all(sentences: &[String]) {
    for sentence in sentences {
        say!("pxnbench: {sentence}");
    }
}
