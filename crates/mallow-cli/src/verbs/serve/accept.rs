// SPDX-License-Identifier: MIT
//! Which form of the metrics is wanted, by the header Accept (RFC 9110, section 12.5.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// OpenMetrics for who names it and does not like Prometheus's text better, or takes no such text.
    pub fn of(accept: &str) -> Form {
        let open = Wish::of(accept, "application", "openmetrics-text");
        let plain = Wish::of(accept, "text", "plain");
        let is_wanted = if open.is_named { open.q >= plain.q } else { open.q > plain.q };
        if is_wanted && open.q > 0.0 { Form::OpenMetrics } else { Form::Prometheus }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

struct Wish {
    /// Not by an asterisk.
    is_named: bool,
    /// 0: not at all.
    q: f32,
}

impl Wish {
    /// What names it most exactly holds; of several of these, as for several versions, the best.
    fn of(accept: &str, kind: &str, form: &str) -> Wish {
        let mut best = (0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let Some((own_kind, own_form)) = name.split_once('/') else { continue };
            let exactness = match (own_kind, own_form) {
                ("*", "*") => 1,
                (own, "*") if own.eq_ignore_ascii_case(kind) => 2,
                (own, own_form)
                    if own.eq_ignore_ascii_case(kind) && own_form.eq_ignore_ascii_case(form) =>
                {
                    3
                }
                _ => continue,
            };
            let q = quality(parts);
            if exactness > best.0 || (exactness == best.0 && q > best.1) {
                best = (exactness, q);
            }
        }
        Wish { is_named: best.0 == 3, q: best.1 }
    }
}

/// Of a parameter that is no number nothing is known, so what it belongs to is not taken.
fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let is_q = |parameter: &str| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
    };
    parameters.find_map(is_q).filter(|q: &f32| q.is_finite()).map_or(1.0, |q| q.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_who_wants_it() {
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=1.0.0",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text;q=0, application/openmetrics-text;version=1.0.0;Q=0.1",
            "text/plain, application/openmetrics-text",
            "text/plain;q=0, */*",
            "application/*, text/*;q=0.9",
        ] {
            assert_eq!(Form::of(accept), Form::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html, */*;q=0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text; q=0.000, */*",
            "application/openmetrics-text;q=0.2, text/plain",
            "application/openmetrics-text;q=0.2, text/*;q=0.5",
            "application/openmetrics-textual",
            "text/plain; note=application/openmetrics-text",
            "application/openmetrics-text;q=high",
            "application/openmetrics-text;q=0, application/*",
        ] {
            assert_eq!(Form::of(accept), Form::Prometheus, "{accept}");
        }
    }
}
