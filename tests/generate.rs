//! Man pages and shell completions.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::CommandFactory;
use common::{alone, run, skip};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Runs `pxnbench generate WHAT` and returns the files that it names.
fn generate(what: &str, folder: &Path) -> Vec<PathBuf> {
    let ended = run(alone(folder).args(["generate", what, "new/files"])).expect_code(0);
    let files: Vec<PathBuf> = ended.stdout.lines().map(|line| folder.join(line)).collect();
    assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    assert_eq!(
        files.len(),
        fs::read_dir(folder.join("new/files"))
            .expect("files")
            .count()
    );
    files
}

/// The visible commands: the program, its subcommands and theirs, each with the name of its page.
fn visible_commands() -> Vec<(String, clap::Command)> {
    fn add(command: &clap::Command, name: &str, all: &mut Vec<(String, clap::Command)>) {
        all.push((name.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            add(sub, &format!("{name}-{}", sub.get_name()), all);
        }
    }
    let mut all = Vec::new();
    add(&pxnbench::cmd::Cli::command(), "pxnbench", &mut all);
    all
}

/// The flags of `command` that its help shows, as they are typed.
fn visible_flags(command: &clap::Command) -> Vec<String> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible
        .flat_map(|arg| {
            let long = arg.get_long().map(|long| format!("--{long}"));
            let short = arg.get_short().map(|short| format!("-{short}"));
            [long, short].into_iter().flatten()
        })
        .collect()
}

#[test]
fn each_visible_command_has_a_man_page_with_all_its_flags() {
    let folder = folder();
    let pages = generate("man", folder.path());
    let commands = visible_commands();
    assert_eq!(pages.len(), commands.len(), "{pages:?}");
    for (name, command) in commands {
        let page = folder.path().join(format!("new/files/{name}.1"));
        let text = fs::read_to_string(&page).expect(&name).replace("\\-", "-");
        for flag in visible_flags(&command) {
            assert!(text.contains(&format!("{flag}\\fR")), "{name}: {flag}");
        }
        for hidden in ["--drop-in", "--inject-fault", "selfcheck", "generate"] {
            assert!(!text.contains(hidden), "{name}: {hidden}");
        }
    }
    let main = fs::read_to_string(folder.path().join("new/files/pxnbench.1")).expect("the page");
    for section in ["SYNOPSIS", "SWEEP", "EXAMPLES", "EXIT CODES"] {
        assert!(
            main.contains(&format!("\n.SH \"{section}\""))
                || main.contains(&format!("\n.SH {section}")),
            "{section}"
        );
    }
}

#[test]
fn man_formats_the_pages_without_a_warning() {
    if Command::new("man").arg("--version").output().is_err() {
        skip("man", "man is not here");
        return;
    }
    let folder = folder();
    for page in generate("man", folder.path()) {
        let mut man = Command::new("man");
        man.args(["--warnings", "-P", "cat", "-l"]).arg(&page);
        man.env("MANWIDTH", "200");
        let ended = run(&mut man).expect_code(0);
        assert_eq!(ended.stderr, "", "{}", page.display());
        assert!(ended.stdout.contains("--help"), "{}", page.display());
    }
}

#[test]
fn completions_offer_what_is_visible_and_nothing_else() {
    let folder = folder();
    let files = generate("completions", folder.path());
    assert_eq!(files.len(), 3, "bash, zsh and fish");
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        for word in [
            "minbytes",
            "tasks-per-node",
            "self-test",
            "aggressive",
            "doctor",
        ] {
            assert!(text.contains(word), "{}: {word}", file.display());
        }
        for hidden in ["drop-in", "inject-fault", "selfcheck", "generate "] {
            assert!(!text.contains(hidden), "{}: {hidden}", file.display());
        }
    }
}

/// What bash offers at the end of `line`, with the file that is generated.
fn offered(completions: &Path, line: &[&str]) -> String {
    let script = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _pxnbench pxnbench \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
         echo \"${{COMPREPLY[*]}}\"",
        completions.display(),
        line.join(" "),
        line.len() - 1
    );
    run(Command::new("bash").args(["-c", &script]))
        .expect_code(0)
        .stdout
}

#[test]
fn bash_completes_levels_and_collectives() {
    let folder = folder();
    let files = generate("completions", folder.path());
    let bash = files
        .iter()
        .find(|file| file.ends_with("pxnbench.bash"))
        .expect("the file for bash");
    assert_eq!(
        offered(bash, &["pxnbench", "all_reduce", "--level", "agg"]),
        "aggressive\n"
    );
    assert_eq!(offered(bash, &["pxnbench", "hyper"]), "hypercube\n");
    assert_eq!(
        offered(bash, &["pxnbench", "proof", "--self"]),
        "--self-test\n"
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").expect("written");
    let ended = run(alone(folder.path()).args(["generate", "man", "file/x"])).expect_code(6);
    assert!(
        ended.stderr.contains("cannot write to file/x: "),
        "{}",
        ended.stderr
    );
}
