//! Debugging left behind: logs that cost a job something or say less than one thinks, checks, dumps, and the one variable
//! that turns an error into a hang.

use super::{AuditContext, AuditFinding, Rule};

/// Variables that have no place in a job, with what they do. Those that are integers count where they are not 0.
const LEFT: [(&str, bool, &str); 9] = [
    (
        "NCCL_CHECK_POINTERS",
        true,
        "has NCCL check the arguments of every call",
    ),
    (
        "NCCL_CHECK_MODE",
        false,
        "has NCCL check the arguments of every call",
    ),
    (
        "NCCL_LAUNCH_MODE",
        false,
        "changes how kernels start, and is deprecated since 2.9",
    ),
    (
        "NCCL_GRAPH_DUMP_FILE",
        false,
        "writes a file at every start",
    ),
    ("NCCL_TOPO_DUMP_FILE", false, "writes a file at every start"),
    (
        "NCCL_GRAPH_FILE",
        false,
        "takes rings and trees from a file, whatever nodes the job has",
    ),
    (
        "NCCL_WARN_ENABLE_DEBUG_INFO",
        true,
        "logs everything after the first warning",
    ),
    (
        "NCCL_PARAM_DUMP_ALL",
        true,
        "prints every parameter at the start",
    ),
    (
        "NCCL_REPORT_CONNECT_PROGRESS",
        true,
        "logs every connection",
    ),
];

/// What belongs to debugging.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = left(known);
    found.extend(net_mismatch(known));
    found.extend(output(known));
    found.extend(file_shared(known));
    found.extend(subsystems(known));
    found
}

fn left(known: &AuditContext) -> Vec<AuditFinding> {
    let is_on =
        |name: &str, integer: bool| match known.settings.get(name).filter(|_| known.may_read(name))
        {
            Some(value) if integer => !["", "0", "false", "FALSE"].contains(&value.trim()),
            Some("DEFAULT" | "PARALLEL") => false,
            Some(value) => !value.is_empty(),
            None => false,
        };
    let on = LEFT
        .into_iter()
        .filter(|(name, integer, _)| is_on(name, *integer));
    on.map(|(name, _, does)| {
        AuditFinding::new(
            Rule::DebugLeft,
            name,
            format!("{} {does}", known.settings.say(name)),
            "unset it in a job",
        )
    })
    .collect()
}

fn net_mismatch(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_IGNORE_NET_MISMATCH";
    let on = known.may_read(NAME) && known.integer(NAME).is_some_and(|value| value != 0);
    let sentence = || {
        format!(
            "{}: where ranks see other network devices NCCL then goes on (as 2.30.7 does unasked), and hangs for ever at full load",
            known.settings.say(NAME)
        )
    };
    on.then(|| {
        AuditFinding::new(
            Rule::IgnoreNetMismatch,
            NAME,
            sentence(),
            "set it to 0, and make the nodes see the same devices",
        )
    })
}

/// How much `NCCL_DEBUG` asks for, where that is much.
fn much<'a>(known: &'a AuditContext) -> Option<&'a str> {
    known.settings.get("NCCL_DEBUG").filter(|value| {
        ["INFO", "TRACE"]
            .iter()
            .any(|w| w.eq_ignore_ascii_case(value))
    })
}

fn output(known: &AuditContext) -> Option<AuditFinding> {
    much(known)?;
    let to_file = known
        .settings
        .get("NCCL_DEBUG_FILE")
        .is_some_and(|file| !file.is_empty());
    let sentence = || {
        format!(
            "{} without NCCL_DEBUG_FILE logs to stdout, where lines of ranks get mixed up",
            known.settings.say("NCCL_DEBUG")
        )
    };
    let remedy = "set NCCL_DEBUG=WARN, or NCCL_DEBUG_FILE to a name with %h and %p";
    (!to_file).then(|| AuditFinding::new(Rule::DebugOutput, "NCCL_DEBUG", sentence(), remedy))
}

fn file_shared(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_DEBUG_FILE";
    let file = known.settings.get(NAME).filter(|file| !file.is_empty())?;
    if ["/dev/stdout", "/dev/stderr", "/dev/null"].contains(&file) {
        return None;
    }
    // `%%` is a percent sign.
    let file = file.replace("%%", "");
    let (host, process) = (file.contains("%h"), file.contains("%p"));
    let said = known.settings.say(NAME);
    let remedy = format!(
        "put %h and %p into the name: {}.%h.%p",
        super::short(file.trim_end_matches('.'))
    );
    if !process {
        let sentence = format!(
            "{said} has no %p: all processes of a node write one file, and each truncates it"
        );
        return Some(AuditFinding::new(
            Rule::DebugFileShared,
            NAME,
            sentence,
            remedy,
        ));
    }
    let sentence = format!(
        "{said} has no %h: on a shared file system two nodes may have a process of the same number"
    );
    let remedy = "put %h into the name too";
    (!host).then(|| AuditFinding::new(Rule::DebugFileShared, NAME, sentence, remedy))
}

fn subsystems(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_DEBUG_SUBSYS";
    much(known)?;
    let list = known.settings.get(NAME).filter(|list| !list.is_empty())?;
    let (except, list) = list
        .strip_prefix('^')
        .map_or((false, list), |rest| (true, rest));
    let names = |wanted: &str| {
        list.split(',')
            .any(|word| word.eq_ignore_ascii_case(wanted))
    };
    // A list replaces the default; `^` takes the list away from everything.
    let is_on = |wanted: &str| {
        if except {
            !names(wanted) && !names("ALL")
        } else {
            names(wanted) || names("ALL")
        }
    };
    let missing: Vec<&str> = [("INIT", "connections"), ("ENV", "settings")]
        .into_iter()
        .filter(|(word, _)| !is_on(word))
        .map(|(_, what)| what)
        .collect();
    let words = missing.join(" and ");
    let sentence = || {
        format!(
            "{}: the list replaces NCCL's own, and leaves {words} out of the log",
            known.settings.say(NAME)
        )
    };
    let remedy = "use INIT,BOOTSTRAP,ENV and whatever else is wanted";
    (!missing.is_empty())
        .then(|| AuditFinding::new(Rule::SubsystemsHidden, NAME, sentence(), remedy))
}
