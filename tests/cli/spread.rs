//! Repeated measurement: until a mean is known, or until a time is over.

use crate::{
    MODEL,
    common::{alone, csv, run},
    folder,
};

#[test]
fn a_precision_that_cannot_be_is_refused() {
    let folder = folder();
    for (arguments, sentence) in [
        (
            ["--precision", "0", "-n", "1"],
            "a precision is a percentage above 0, such as 1 or 0.5%",
        ),
        (
            ["--precision", "1%", "-n", "0"],
            "--precision times until the mean is known, but -n 0 times nothing. Use only one of them",
        ),
    ] {
        let mut command = alone(folder.path());
        let refused = run(command.arg("all_reduce").args(arguments).args(MODEL)).expect_code(6);
        assert!(refused.stderr.contains(sentence), "{}", refused.stderr);
    }
}

#[test]
fn computed_times_have_no_interval() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args(["all_reduce", "-b", "8", "-e", "8", "--csv", "x.csv"]);
    run(command.args(MODEL).args(["--precision", "1%"])).expect_code(0);
    for row in csv(&folder.path().join("x.csv")) {
        assert_eq!((&row["precision_pct"][..], &row["blocks"][..]), ("", "1"));
        assert_eq!(row["iters"], "20");
    }
}
