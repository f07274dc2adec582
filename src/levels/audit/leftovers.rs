//! Debugging left behind: logs that slow a job down or say less than expected, checks, dumps, and
//! the one variable that turns an error into a hang.

use super::{
    finding::{AuditContext, AuditFinding, short},
    rule::Rule,
};

/// A variable that has no place in a job.
struct DebugVariable {
    name: &'static str,
    /// Whether the variable is an integer, which only counts if it is not 0.
    is_integer: bool,
    /// What the variable does.
    effect: &'static str,
}

const fn integer(name: &'static str, effect: &'static str) -> DebugVariable {
    DebugVariable {
        name,
        is_integer: true,
        effect,
    }
}

const fn text(name: &'static str, effect: &'static str) -> DebugVariable {
    DebugVariable {
        name,
        is_integer: false,
        effect,
    }
}

#[rustfmt::skip]
const DEBUG_VARIABLES: [DebugVariable; 9] = [
    integer("NCCL_CHECK_POINTERS", "makes NCCL check the arguments of every call"),
    text("NCCL_CHECK_MODE", "makes NCCL check the arguments of every call"),
    text("NCCL_LAUNCH_MODE", "changes how kernels start, and is deprecated since 2.9"),
    text("NCCL_GRAPH_DUMP_FILE", "writes a file at every start"),
    text("NCCL_TOPO_DUMP_FILE", "writes a file at every start"),
    text("NCCL_GRAPH_FILE", "takes rings and trees from a file, whatever nodes the job has"),
    integer("NCCL_WARN_ENABLE_DEBUG_INFO", "logs everything after the first warning"),
    integer("NCCL_PARAM_DUMP_ALL", "prints every parameter at the start"),
    integer("NCCL_REPORT_CONNECT_PROGRESS", "logs every connection"),
];

/// Returns the findings on debugging variables.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = debugging_left(known);
    found.extend(net_mismatch(known));
    found.extend(log_on_stdout(known));
    found.extend(shared_log_file(known));
    found.extend(hidden_subsystems(known));
    found
}

fn debugging_left(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for variable in DEBUG_VARIABLES {
        let DebugVariable { name, effect, .. } = variable;
        let value = known.settings.get(name).filter(|_| known.may_read(name));
        if value.is_some_and(|value| variable.is_on(value)) {
            let sentence = format!("{} {effect}", known.settings.describe(name));
            let remedy = "unset it in a job";
            found.push(AuditFinding::new(Rule::DebugLeft, name, sentence, remedy));
        }
    }
    found
}

impl DebugVariable {
    fn is_on(&self, value: &str) -> bool {
        if self.is_integer {
            !["", "0", "false", "FALSE"].contains(&value.trim())
        } else {
            !["", "DEFAULT", "PARALLEL"].contains(&value)
        }
    }
}

fn net_mismatch(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_IGNORE_NET_MISMATCH";
    if !known.may_read(NAME) || known.integer(NAME)? == 0 {
        return None;
    }
    let sentence = format!(
        "{}: if ranks see different network devices, NCCL continues anyway (2.30.7 does so by \
         default) and hangs at full load",
        known.settings.describe(NAME)
    );
    let remedy = "set it to 0, and make the nodes see the same devices";
    Some(AuditFinding::new(
        Rule::IgnoreNetMismatch,
        NAME,
        sentence,
        remedy,
    ))
}

/// Returns whether `NCCL_DEBUG` asks for more than warnings.
fn is_verbose(known: &AuditContext) -> bool {
    let level = known.settings.get("NCCL_DEBUG").unwrap_or_default();
    level.eq_ignore_ascii_case("INFO") || level.eq_ignore_ascii_case("TRACE")
}

fn log_on_stdout(known: &AuditContext) -> Option<AuditFinding> {
    let file = known.settings.get("NCCL_DEBUG_FILE").unwrap_or_default();
    if !is_verbose(known) || !file.is_empty() {
        return None;
    }
    let sentence = format!(
        "{} without NCCL_DEBUG_FILE logs to stdout, where lines of several ranks get mixed up",
        known.settings.describe("NCCL_DEBUG")
    );
    let remedy = "set NCCL_DEBUG=WARN, or NCCL_DEBUG_FILE to a name with %h and %p";
    Some(AuditFinding::new(
        Rule::DebugOutput,
        "NCCL_DEBUG",
        sentence,
        remedy,
    ))
}

fn shared_log_file(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_DEBUG_FILE";
    let file = known.settings.get(NAME)?;
    if ["", "/dev/stdout", "/dev/stderr", "/dev/null"].contains(&file) {
        return None;
    }
    // `%%` is a percent sign.
    let file = file.replace("%%", "");
    let setting = known.settings.describe(NAME);
    if !file.contains("%p") {
        let sentence = format!(
            "{setting} has no %p: all processes of a node write to one file, and each truncates it"
        );
        let base = short(file.trim_end_matches('.'));
        let remedy = format!("add %h and %p to the name: {base}.%h.%p");
        return Some(AuditFinding::new(
            Rule::DebugFileShared,
            NAME,
            sentence,
            remedy,
        ));
    }
    if !file.contains("%h") {
        let sentence = format!(
            "{setting} has no %h: on a shared file system, processes of two nodes may have the \
             same number"
        );
        let remedy = "also add %h to the name";
        return Some(AuditFinding::new(
            Rule::DebugFileShared,
            NAME,
            sentence,
            remedy,
        ));
    }
    None
}

fn hidden_subsystems(known: &AuditContext) -> Option<AuditFinding> {
    const NAME: &str = "NCCL_DEBUG_SUBSYS";
    let list = known.settings.get(NAME).unwrap_or_default();
    if !is_verbose(known) || list.is_empty() {
        return None;
    }
    let missing: Vec<&str> = [("INIT", "connections"), ("ENV", "settings")]
        .into_iter()
        .filter(|(subsystem, _)| !is_logged(subsystem, list))
        .map(|(_, what)| what)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let sentence = format!(
        "{}: the list replaces NCCL's default, and leaves {} out of the log",
        known.settings.describe(NAME),
        missing.join(" and ")
    );
    let remedy = "use INIT,BOOTSTRAP,ENV and any others that are wanted";
    Some(AuditFinding::new(
        Rule::SubsystemsHidden,
        NAME,
        sentence,
        remedy,
    ))
}

/// Returns whether a list of subsystems logs this one. The list replaces the default; `^` excludes
/// it from all.
fn is_logged(subsystem: &str, list: &str) -> bool {
    let names = list.strip_prefix('^').unwrap_or(list);
    let is_listed = names
        .split(',')
        .any(|name| name.eq_ignore_ascii_case(subsystem) || name.eq_ignore_ascii_case("ALL"));
    is_listed != list.starts_with('^')
}
