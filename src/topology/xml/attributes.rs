//! Attributes of the elements of a topology file.

use roxmltree::Node;

/// What stands for a value that a template leaves to the machine.
pub(super) const LEFT_OUT: &str = "not in this file";

pub(super) fn number<T: std::str::FromStr>(node: Node, name: &str) -> Option<T> {
    node.attribute(name)?.trim().parse().ok()
}

/// Returns an integer, which may be hexadecimal.
pub(super) fn integer<T: TryFrom<i64>>(node: Node, name: &str) -> Option<T> {
    let text = node.attribute(name)?.trim();
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}

pub(super) fn flag(node: Node, name: &str) -> Option<bool> {
    integer::<i64>(node, name).map(|value| value != 0)
}

/// Returns an attribute that is an address, as sysfs writes it.
pub(super) fn address(node: Node, name: &str) -> String {
    let address = node.attribute(name).unwrap_or_default();
    address.trim().to_ascii_lowercase()
}

pub(super) fn has_child(node: Node, name: &str) -> bool {
    node.children().any(|child| child.has_tag_name(name))
}
