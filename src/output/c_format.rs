//! Numbers as C's printf writes them.

/// Formats a number in `width` columns, right aligned: with two decimals, or as few as fit, or else
/// as a power of ten.
pub(super) fn fit(value: f64, width: usize) -> String {
    for decimals in [2, 1, 0] {
        let text = format!("{value:width$.decimals$}");
        if text.len() <= width {
            return text;
        }
    }
    let mut text = exponent(value, 1);
    if text.len() > width {
        text = exponent(value, 0);
    }
    format!("{text:>width$}")
}

/// Formats a number like C's `%.{decimals}e`: Rust writes no sign and no leading zero in the
/// exponent.
fn exponent(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}

/// Formats a number like C's `%g`: six significant digits, no trailing zeros, and an exponent if it
/// is very large or small.
pub(super) fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let rounded = exponent(value, 5);
    let (mantissa, power) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
    let power_number: i32 = power.parse().unwrap_or(0);
    if !(-4..6).contains(&power_number) {
        return format!("{}e{power}", without_trailing_zeros(mantissa));
    }
    let decimals = (5 - power_number).max(0) as usize;
    without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (value, width, text) in [
            (12.345, 7, "  12.35"),
            (10_234.6, 7, "10234.6"),
            (141_386.0, 7, " 141386"),
            (12_345_678.0, 7, "1.2e+07"),
            (0.0, 6, "  0.00"),
            (1_234.5, 6, "1234.5"),
            (1_234_567.0, 6, " 1e+06"),
        ] {
            assert_eq!(fit(value, width), text, "{value}");
        }
        for (value, text) in [
            (0.0, "0"),
            (105.32, "105.32"),
            (86.841_23, "86.8412"),
            (341.503, "341.503"),
            (1_000_000.0, "1e+06"),
            (123_456.0, "123456"),
            (0.000_012_5, "1.25e-05"),
            (0.000_125, "0.000125"),
            (f64::NAN, "nan"),
            (999_999.9, "1e+06"),
        ] {
            assert_eq!(general(value), text, "{value}");
        }
    }
}
