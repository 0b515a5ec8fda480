use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::sample::median;

/// What was measured, by name and case.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(String, String), Vec<f64>>);

impl Figures {
    pub(crate) fn note(&mut self, name: &str, case: &str, value: f64) {
        eprintln!("{name:8} {case:24} {value:12.3}");
        self.0.entry((name.to_owned(), case.to_owned())).or_default().push(value);
    }

    pub(crate) fn median(&mut self, name: &str, case: &str) -> f64 {
        self.0.get_mut(&(name.to_owned(), case.to_owned())).map_or(f64::NAN, |samples| median(samples))
    }

    /// The last line: medians by name, and ours beside each peer in the given case.
    pub(crate) fn report(mut self, bench: &str, case: &str, extra: &[(&str, f64)]) -> Value {
        let mut by_name: BTreeMap<String, serde_json::Map<String, Value>> = BTreeMap::new();
        for ((name, case), samples) in &mut self.0 {
            by_name.entry(name.clone()).or_default().insert(case.clone(), json!(median(samples)));
        }
        let ours = self.median("ours", case);
        let mut ratios = serde_json::Map::new();
        let peers: Vec<String> = by_name.keys().filter(|name| *name != "ours").cloned().collect();
        for peer in peers {
            let theirs = self.median(&peer, case);
            if theirs.is_finite() {
                ratios.insert(format!("{peer}@{case}"), json!(ours / theirs));
            }
        }
        for (name, value) in extra {
            ratios.insert((*name).to_owned(), json!(value));
        }
        let ours = by_name.remove("ours").unwrap_or_default();
        json!({ "bench": bench, "unit": "requests/s", "ours": ours, "peers": by_name, "ratios": ratios })
    }
}
