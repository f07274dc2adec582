//! `--predict`: what NCCL's own model says of each case.

use crate::{
    common::{csv, run},
    machine::Machine,
};

#[test]
fn the_model_of_nccl_is_asked_once_per_case_and_nothing_runs() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for spread in ["-g 2", "-t 2"] {
        let words =
            format!("all_reduce broadcast alltoall -b 1M -e 2M -f 2 -n 2 {spread} --predict");
        let sweep = machine.sweep(1, &words);
        for row in &sweep.rows {
            // 10 us, and a us for each 100,000 bytes; sends and receives have no model.
            let expected = match (row["collective"].as_str(), row["size_bytes"].as_str()) {
                ("alltoall", _) => "",
                (_, "1048576") => "20.4858",
                _ => "30.9715",
            };
            assert_eq!(row["predicted_us"], expected, "{row:?}");
        }
        let without = machine.sweep(1, &words.replace(" --predict", ""));
        assert!(
            without
                .rows
                .iter()
                .all(|row| row["predicted_us"].is_empty())
        );
    }
    machine.sweep(2, "all_reduce -b 1M -e 2M -f 2 -n 2 --predict");
}

#[test]
fn an_older_nccl_predicts_nothing_and_says_so() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let library = machine.libraries.join("2.18.5").join("libnccl.so.2");
    let mut command = machine.start(1, "all_reduce -g 2 -b 1K -e 1K -n 2 --predict --csv x.csv");
    let ended = run(command.arg("--nccl-lib").arg(library)).expect_code(0);
    let sentence = "--predict: NCCL 2.22 or newer predicts times, and this is 2.18.5";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    let rows = csv(&machine.path().join("x.csv"));
    assert!(rows.iter().all(|row| row["predicted_us"].is_empty()));
}
