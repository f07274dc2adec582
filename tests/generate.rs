//! Man pages, shell completions, and their installation.

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use clap::CommandFactory;
use common::{BINARY, alone, clean, run, skip};

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
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _pxnbench pxnbench \"${{COMP_WORDS[-1]}}\" \
         \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[*]}}\"",
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

// ---
// scripts/install.sh ------------------------------------------------------------------------------

/// `scripts/install.sh` of this checkout.
fn install(arguments: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("bash");
    clean(&mut command);
    command.arg(root.join("scripts/install.sh")).args(arguments);
    command
}

/// Files below `folder`, as paths relative to it.
fn files_below(folder: &Path) -> Vec<String> {
    let found = run(Command::new("find")
        .args([".", "-type", "f"])
        .current_dir(folder));
    found
        .expect_code(0)
        .stdout
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn install_puts_everything_below_the_prefix_and_uninstall_removes_it() {
    let folder = folder();
    let prefix = folder.path().to_str().expect("a path");
    let build = tempfile::tempdir().expect("a folder");
    let plugin = build.path().join("plugin.so");
    fs::write(&plugin, "the plugin").expect("written");
    let plugin = plugin.to_str().expect("a path");
    let all = ["--prefix", prefix, "--binary", BINARY, "--plugin", plugin];
    run(&mut install(&all)).expect_code(0);
    for file in [
        "bin/pxnbench",
        "lib/pxnbench/libnccl-net-pxnbench.so",
        "share/man/man1/pxnbench-doctor.1",
        "share/bash-completion/completions/pxnbench",
        "share/zsh/site-functions/_pxnbench",
        "share/fish/vendor_completions.d/pxnbench.fish",
        "share/pxnbench/slurm/compare_levels.sbatch",
        "share/pxnbench/slurm/levels.toml",
        "share/pxnbench/slurm/site.conf.example",
        "share/doc/pxnbench/README.md",
        "share/doc/pxnbench/LICENSE",
        "share/doc/pxnbench/docs/SLURM.md",
        "share/doc/pxnbench/docs/zh/TUTORIAL.md",
    ] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let program = folder.path().join("bin/pxnbench");
    run(Command::new(program).arg("--version")).expect_code(0);

    let own = folder.path().join("share/pxnbench/slurm/site.conf");
    fs::write(&own, "# mine\n").expect("written");
    run(&mut install(&all)).expect_code(0);
    run(&mut install(&["--prefix", prefix, "--uninstall"])).expect_code(0);
    assert_eq!(
        files_below(folder.path()),
        ["./share/pxnbench/slurm/site.conf"]
    );
    run(&mut install(&["--prefix", prefix, "--uninstall"])).expect_code(6);
}

#[test]
fn destdir_is_put_before_the_prefix() {
    let folder = folder();
    let destdir = format!("--destdir={}", folder.path().display());
    run(&mut install(&[
        "--prefix=/opt/x/",
        &destdir,
        "--binary",
        BINARY,
    ]))
    .expect_code(0);
    let files = files_below(folder.path());
    assert!(
        files.contains(&"./opt/x/bin/pxnbench".to_owned()),
        "{files:?}"
    );
    assert!(
        files.iter().all(|file| file.starts_with("./opt/x/")),
        "{files:?}"
    );
    for bad in [
        &["--prefix", "relative"] as &[&str],
        &["--prefix"],
        &["--nonsense"],
    ] {
        run(&mut install(bad)).expect_code(6);
    }
}

/// Writes a program of one line.
fn write_program(file: &Path, line: &str) {
    fs::write(file, format!("#!/bin/sh\n{line}\n")).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// A template that is submitted by its path finds the program in PATH, and the site's file beside
/// itself.
#[test]
fn installed_templates_find_their_program_and_site_file() {
    let (folder, elsewhere) = (folder(), folder());
    let prefix = folder.path().to_str().expect("a path");
    run(&mut install(&["--prefix", prefix, "--binary", BINARY])).expect_code(0);
    let slurm = folder.path().join("share/pxnbench/slurm");
    fs::write(slurm.join("site.conf"), "echo the site\n").expect("written");
    let template = slurm.join("pxn_balanced.sbatch");
    // What stands for Slurm and for the program: only which program is called, and how, is looked
    // at.
    let stubs = elsewhere.path().join("stubs");
    fs::create_dir(&stubs).expect("a folder");
    write_program(
        &stubs.join("scontrol"),
        &format!("echo '   Command={} alltoall'", template.display()),
    );
    write_program(&stubs.join("pxnbench"), "echo \"$0 $*\"");
    let path = format!(
        "{}:{}",
        stubs.display(),
        std::env::var("PATH").expect("PATH")
    );

    let mut job = Command::new("bash");
    clean(&mut job);
    job.arg(&template)
        .arg("alltoall")
        .current_dir(elsewhere.path());
    job.env("PATH", path)
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_SUBMIT_DIR", elsewhere.path());
    let ended = run(job.env_remove("PXNBENCH").env_remove("PXNBENCH_HOME")).expect_code(0);
    let called = format!(
        "{}/pxnbench launch --default-sweep alltoall sendrecv all_reduce -b 1K -e 1G -f 4 -- \
         --level balanced alltoall",
        stubs.display()
    );
    assert_eq!(ended.stdout, format!("the site\n{called}\n"));
}
