//! NCCL's RAS, played by a thread of the test: what a job whose GPUs are stuck says of it, and that
//! it waits for no answer. The files are in memory, as those of the other jobs that are stuck.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    common::{Ended, json, run},
    machine::Machine,
};

/// What RAS says of a job of which a rank does not answer, with a character that a terminal obeys.
const STATUS: &str = "NCCL version 2.27.3 compiled with CUDA 12.9\n\x1b[2JJob summary\n===========\n\nErrors\n======\n\n\
    #0-0 (00c0ffee00c0ffee) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 1 -- GPU 1 managed by process 4711 on node 10.0.0.1\n\n\
    Warnings\n========\n\n";

/// Returns the address of a server that treats each connection with `serve`, and the number of
/// connections so far.
fn server(serve: fn(TcpStream)) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || serve(socket));
        }
    });
    (address, connections)
}

/// Answers as RAS does: each line, the status, and the end of the connection.
fn answer(socket: TcpStream) {
    let mut lines = BufReader::new(socket.try_clone().expect("the same socket")).lines();
    let mut say = |expected: &str, text: &str| {
        let line = lines.next().expect("a line").expect("text");
        assert_eq!(line, expected);
        (&socket).write_all(text.as_bytes()).expect("sent");
    };
    say("CLIENT PROTOCOL 2", "SERVER PROTOCOL 2\n");
    say("TIMEOUT 1", "OK\n");
    say("VERBOSE STATUS", STATUS);
}

/// Reads and says nothing.
fn be_silent(socket: TcpStream) {
    for _ in BufReader::new(socket).lines() {}
}

/// Runs a job of two ranks on `machine`, one of which hangs in an operation; its RAS is at
/// `address`.
fn stuck(machine: &Machine, address: &str, variables: &[(&str, &str)]) -> Ended {
    let words = "all_reduce -b 1K -e 1K -n 40 -w 1 -c 0 -T 5 --out run";
    let mut command = machine.start(2, words);
    command
        .env("STANDIN_FAULT", "hang:5:1:1")
        .env("NCCL_RAS_ADDR", address)
        .envs(variables.iter().copied());
    let ended = run(&mut command).expect_code(4);
    assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
    ended
}

/// Returns the only sentence of `ended` that says who is stuck.
#[track_caller]
fn only_sentence(ended: &Ended) -> &str {
    let lines = ended.stderr.lines();
    let stuck: Vec<&str> = lines
        .filter(|line| line.contains("made no progress"))
        .collect();
    assert_eq!(stuck.len(), 1, "{}", ended.stderr);
    stuck[0]
}

fn answer_of(machine: &Machine) -> Option<String> {
    fs::read_to_string(machine.path().join("run/nccl-ras.txt")).ok()
}

#[test]
fn what_ras_reports_is_in_the_sentence_and_its_answer_in_the_folder() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    let (address, _) = server(answer);
    let ended = stuck(&machine, &address, &[]);
    let gist = "NCCL's RAS reports #0-0 (00c0ffee00c0ffee) INCOMPLETE: Missing communicator data \
                from 1 rank, Rank 1 -- GPU 1 managed by process 4711 on node 10.0.0.1 (its whole \
                answer: run/nccl-ras.txt)";
    let sentence = only_sentence(&ended);
    assert!(sentence.ends_with(&format!(". {gist}")), "{sentence}");
    assert!(
        sentence.contains("On this rank NCCL reports no error"),
        "{sentence}"
    );
    let end = &json(&machine.path().join("run/run.json"))["end"];
    assert!(end.to_string().contains(gist), "{end}");
    let shown = STATUS.replace('\x1b', "\\u001b");
    assert_eq!(answer_of(&machine).as_deref(), Some(&*shown));
}

#[test]
fn a_ras_that_does_not_answer_is_not_waited_for() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    let (address, connections) = server(be_silent);
    let ended = stuck(&machine, &address, &[]);
    let unanswered = format!(". NCCL's RAS at {address} did not answer within 2 s");
    let sentence = only_sentence(&ended);
    assert!(sentence.ends_with(&unanswered), "{sentence}");
    assert!(connections.load(Ordering::SeqCst) > 1, "it is tried again");
    assert_eq!(answer_of(&machine), None);
}

#[test]
fn a_ras_that_does_not_listen_or_is_switched_off_is_not_mentioned() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    // Port 1 is that of a service of the past.
    let ended = stuck(&machine, "127.0.0.1:1", &[]);
    let sentence = only_sentence(&ended);
    assert!(!sentence.contains("RAS"), "{sentence}");
    let (address, connections) = server(answer);
    fs::remove_dir_all(machine.path().join("run")).expect("removed");
    let ended = stuck(&machine, &address, &[("NCCL_RAS_ENABLE", "0")]);
    let sentence = only_sentence(&ended);
    assert!(!sentence.contains("RAS"), "{sentence}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}
