//! Packages and releases: `scripts/release.sh`, the metadata of the Debian package, Spack's recipe,
//! the module file.

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use common::{BINARY, Ended, clean, run, skip};
use toml::Table;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

fn manifest() -> Table {
    text("Cargo.toml").parse().expect("Cargo.toml")
}

/// A script of this checkout.
fn script(name: &str) -> Command {
    let mut command = Command::new("bash");
    clean(&mut command);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    command.arg(root().join("scripts").join(name));
    command
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok()
}

// ---
// scripts/release.sh ------------------------------------------------------------------------------

/// Writes a program that stands for the one in a release, which with all its symbols would be slow
/// to compress.
fn small_program(folder: &Path) -> PathBuf {
    let program = folder.join("small");
    fs::write(&program, format!("#!/bin/sh\nexec {BINARY} \"$@\"\n")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    program
}

/// Whether this is a git checkout, without which nothing is released.
fn is_checkout() -> bool {
    root().join(".git").exists() && runs("git", "--version")
        || skip("git", "this is not a git checkout")
}

/// Makes a release of archives only.
fn release(program: &Path, out: &Path) -> Ended {
    let mut command = script("release.sh");
    command.args(["--dirty", "--no-deb", "--no-bom", "--binary"]);
    run(command.arg(program).arg("--out").arg(out)).expect_code(0)
}

/// Runs a shell command in a folder.
fn shell(folder: &Path, line: &str) -> Ended {
    run(Command::new("bash").args(["-c", line]).current_dir(folder))
}

#[test]
fn a_release_is_the_same_each_time_and_runs_where_it_is_unpacked() {
    if !is_checkout() {
        return;
    }
    let folder = folder();
    let program = small_program(folder.path());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    release(&program, &first);
    // Another time of the files that are archived, and another mask for new ones.
    let touched = fs::File::open(&program).expect("the program");
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    touched.set_modified(long_ago).expect("another time");
    let mut again = Command::new("bash");
    clean(&mut again);
    again.env("SOURCE_DATE_EPOCH", "1700000000");
    again.args(["-c", "umask 077 && exec bash \"$@\"", "again"]);
    again.arg(root().join("scripts/release.sh"));
    again.args(["--dirty", "--no-deb", "--no-bom"]);
    again
        .arg("--binary")
        .arg(&program)
        .arg("--out")
        .arg(&second);
    run(&mut again).expect_code(0);
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums(&first), sums(&second));

    shell(&first, "sha256sum --check --strict SHA256SUMS").expect_code(0);
    assert_eq!(sums(&first).lines().count(), 2, "{}", sums(&first));
    let unpack = format!(
        "tar xzf pxnbench-{VERSION}-linux-*.tar.gz && cd pxnbench-{VERSION} && find . -type f"
    );
    let files = shell(&first, &unpack).expect_code(0).stdout;
    for file in [
        "./bin/pxnbench",
        "./share/man/man1/pxnbench-doctor.1",
        "./share/bash-completion/completions/pxnbench",
        "./share/pxnbench/slurm/suite.sbatch",
        "./share/doc/pxnbench/docs/CONTAINERS.md",
        &format!("./share/pxnbench/modulefiles/pxnbench/{VERSION}"),
    ] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
    assert!(!files.contains("manifest"), "{files}");
    let program = format!("pxnbench-{VERSION}/bin/pxnbench --version");
    assert!(
        shell(&first, &program)
            .expect_code(0)
            .stdout
            .contains(VERSION)
    );
    let listed = format!("tar tvzf pxnbench-{VERSION}-src.tar.gz");
    let sources = shell(&first, &listed).expect_code(0).stdout;
    assert!(
        sources.contains(&format!("pxnbench-{VERSION}/Cargo.lock")),
        "{sources}"
    );
}

#[test]
fn a_release_that_would_lack_something_is_not_made() {
    if !is_checkout() {
        return;
    }
    let folder = folder();
    let program = small_program(folder.path());
    let out = folder.path().join("out");
    let refused = |arguments: &[&str], code: i32| {
        let mut command = script("release.sh");
        command
            .env("PATH", "/usr/bin:/bin")
            .env("CARGO_HOME", folder.path());
        command.args(arguments).arg("--out").arg(&out);
        let ended = run(&mut command).expect_code(code);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        ended.stderr
    };
    let program = program.to_str().expect("a path");
    assert!(refused(&["--nonsense"], 6).contains("unknown option"));
    let stderr = refused(
        &["--dirty", "--no-deb", "--no-bom", "--binary", "/nowhere"],
        6,
    );
    assert!(stderr.contains("/nowhere: no program there"), "{stderr}");
    let stderr = refused(&["--dirty", "--no-bom", "--binary", program], 8);
    assert!(stderr.contains("cargo install cargo-deb"), "{stderr}");
    let stderr = refused(&["--dirty", "--no-deb", "--binary", program], 8);
    assert!(stderr.contains("cargo install cargo-cyclonedx"), "{stderr}");
    fs::create_dir_all(out.join("earlier")).expect("a folder");
    let stderr = refused(&["--dirty", "--no-deb", "--no-bom", "--binary", program], 6);
    assert!(stderr.contains("is not empty"), "{stderr}");
}

/// Stand-ins for programs of cargo's: one prints what is below the folder that the package is made
/// of, and one writes a bill of materials with the path of the checkout in it.
const CARGO_DEB: &str = r#"cd "$CARGO_TARGET_DIR/release" && find . -type f | sort >"$LISTED"; head -n 1 <(zcat package/usr/share/doc/pxnbench/changelog.Debian.gz) >>"$LISTED""#;
const CARGO_CYCLONEDX: &str = r#"while [[ $1 != --override-filename ]]; do shift; done; echo "path+file://$PWD#pxnbench" >"$2.json""#;

#[test]
fn a_release_has_a_package_by_debians_rules_and_no_path_of_this_machine() {
    if !is_checkout() {
        return;
    }
    let folder = folder();
    let program = small_program(folder.path());
    for (name, line) in [
        ("cargo-deb", CARGO_DEB),
        ("cargo-cyclonedx", CARGO_CYCLONEDX),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/bash\n{line}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    let (out, listed) = (folder.path().join("out"), folder.path().join("listed"));
    let path = std::env::var("PATH").expect("PATH");
    let mut command = script("release.sh");
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    command.env("LISTED", &listed).args(["--dirty", "--binary"]);
    run(command.arg(&program).arg("--out").arg(&out)).expect_code(0);

    let listed = fs::read_to_string(listed).expect("the list");
    for line in [
        "./pxnbench".to_owned(),
        "./package/usr/share/man/man1/pxnbench-doctor.1.gz".into(),
        "./package/usr/share/doc/pxnbench/copyright".into(),
        format!("pxnbench ({VERSION}-1) unstable; urgency=medium"),
    ] {
        assert!(
            listed.lines().any(|listed| listed == line),
            "{line}: {listed}"
        );
    }
    let materials = fs::read_to_string(out.join(format!("pxnbench-{VERSION}.cdx.json")));
    assert_eq!(materials.expect("materials"), "path+file:///src#pxnbench\n");
    let sums = fs::read_to_string(out.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums.lines().count(), 3, "{sums}");
}

// --- the Debian
// package -----------------------------------------------------------------------------------------

/// The sources of the package's files are what `scripts/release.sh` has put there when it calls
/// cargo-deb.
#[test]
fn the_debian_package_names_files_that_a_release_makes() {
    let manifest = manifest();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().expect("assets");
    let staged = folder();
    let package = staged.path().join("target/release/package");
    let mut install = script("install.sh");
    install.args(["--prefix", "/usr", "--binary", BINARY, "--destdir"]);
    let plugin = staged.path().join("plugin.so");
    fs::write(&plugin, "the plugin").expect("written");
    run(install.arg(&package).arg("--plugin").arg(&plugin)).expect_code(0);
    assert!(
        text("scripts/release.sh").contains("--destdir \"$stage/release/package\" --prefix /usr")
    );
    let mut targets = Vec::new();
    for asset in assets {
        let word = |at: usize| asset[at].as_str().expect("a word");
        targets.push(word(1));
        let source = word(0).trim_end_matches("/**/*");
        if source == "target/release/pxnbench" {
            continue; // cargo's
        }
        assert!(staged.path().join(source).is_dir(), "{source}");
        // What is below it keeps its place.
        assert!(source.ends_with(word(1).trim_end_matches('/')), "{asset}");
    }
    assert_eq!(targets, ["usr/bin/", "usr/lib/", "usr/share/"]);
    let depends = deb["depends"].as_str().expect("depends");
    assert!(depends.split(", ").any(|name| name == "$auto"), "by ldd");
    assert!(depends.contains("openmpi-bin"), "{depends}");
}

// ---
// Spack -------------------------------------------------------------------------------------------

const RECIPE: &str = "packaging/spack/spack_repo/pxnbench/packages/pxnbench/package.py";

/// Runs the recipe with stand-ins for Spack's functions, which print how they are called.
const SPACK: &str = r#"
import sys, types

class Package:
    pass

def say(name):
    def call(*words, **options):
        print(name, *words, *(f"{key}={value}" for key, value in sorted(options.items())), sep="|")
        return lambda function: function
    return call

spack = types.ModuleType("spack.package")
for name in ["license", "version", "variant", "depends_on", "run_after", "on_package_attributes"]:
    setattr(spack, name, say(name))
spack.EnvironmentModifications = object
generic = types.ModuleType("spack_repo.builtin.build_systems.generic")
generic.Package = Package
sys.modules["spack.package"] = spack
sys.modules[generic.__name__] = generic
for name in ["spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"]:
    sys.modules[name] = types.ModuleType(name)
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
print(names["Pxnbench"]().url_for_version("1.2.3"))
"#;

#[test]
fn spacks_recipe_has_the_versions_and_features_of_the_crate() {
    if !runs("python3", "--version") {
        skip("python3", "there is no python3 to run Spack's recipe with");
        return;
    }
    let folder = folder();
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SPACK]).arg(root().join(RECIPE));
    let called = run(python.current_dir(folder.path())).expect_code(0).stdout;
    let manifest = manifest();
    let rust = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .expect("a version");
    for line in [
        format!("version|{VERSION}"),
        format!("depends_on|rust@{rust}:|type=build"),
        "depends_on|c|type=build".into(),
        "depends_on|mpi|when=+mpi".into(),
        "depends_on|llvm+clang|type=build|when=+mpi".into(),
    ] {
        assert!(
            called.lines().any(|called| called == line),
            "{line}: {called}"
        );
    }
    let default = manifest["features"]["default"]
        .as_array()
        .expect("features");
    for feature in default {
        let name = feature.as_str().expect("a name");
        let line = format!("variant|{name}|default=True|");
        assert!(called.contains(&line), "{line}: {called}");
    }
    // Where scripts/release.sh puts the archive of the sources.
    assert!(called.contains("/pxnbench-1.2.3-src.tar.gz"), "{called}");
    assert!(text("scripts/release.sh").contains("/pxnbench-$version-src.tar.gz"));
    assert!(text("docs/BUILD.md").contains(&format!("spack dev-build pxnbench@{VERSION}")));
    assert!(text(RECIPE).contains(&format!("spack dev-build pxnbench@{VERSION}")));
}

// --- the module
// file --------------------------------------------------------------------------------------------

/// Runs a module file with stand-ins for the commands of modules, which print how they are called.
const MODULES: &str = r#"
foreach name {module-whatis conflict prepend-path append-path setenv} {
    proc $name args "puts \"$name \$args\""
}
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
"#;

#[test]
fn the_installed_module_file_finds_its_prefix() {
    if !runs("tclsh", "/dev/null") {
        skip("tclsh", "there is no tclsh to run the module file with");
        return;
    }
    let folder = folder();
    let prefix = folder.path().to_str().expect("a path");
    run(script("install.sh").args(["--prefix", prefix, "--binary", BINARY])).expect_code(0);
    let file = format!("{prefix}/share/pxnbench/modulefiles/pxnbench/{VERSION}");
    assert!(text("packaging/modulefile").starts_with("#%Module"));
    let modules = folder.path().join("modules.tcl");
    fs::write(&modules, MODULES).expect("written");
    let set = run(Command::new("tclsh").arg(&modules).arg(&file))
        .expect_code(0)
        .stdout;
    for line in [
        "conflict pxnbench".to_owned(),
        format!("prepend-path PATH {prefix}/bin"),
        format!("prepend-path MANPATH {prefix}/share/man"),
        format!("setenv PXNBENCH_HOME {prefix}/share/pxnbench"),
    ] {
        assert!(set.lines().any(|set| set == line), "{line}: {set}");
    }
    assert!(set.contains(&format!("pxnbench {VERSION}: ")), "{set}");
    // Where templates look for the site's settings.
    assert!(
        folder
            .path()
            .join("share/pxnbench/slurm/site.conf.example")
            .is_file()
    );

    run(script("install.sh").args(["--prefix", prefix, "--uninstall"])).expect_code(0);
    assert!(
        !folder.path().join("share/pxnbench").exists(),
        "all of it is removed"
    );
}
