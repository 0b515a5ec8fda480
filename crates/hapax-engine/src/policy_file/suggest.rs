//! "Did you mean …": the known name that is the fewest edits away.

/// Names longer than this are not worth comparing.
const LONGEST: usize = 40;

/// The end of a sentence about an unknown name: the near one, or all of them.
#[must_use]
pub fn or_one_of(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => "; none is defined".to_owned(),
        None if known.len() > 12 => "; see docs/policy-file.md for the names".to_owned(),
        None => format!("; write one of {}", listed(known)),
    }
}

/// Names as a list in a sentence.
#[must_use]
pub fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.chars().count() > LONGEST {
        return None;
    }
    let name = name.to_lowercase().replace('-', "_");
    let near = known.iter().map(|candidate| (distance(&name, candidate), *candidate)).min()?;
    (near.0 <= (near.1.chars().count() / 3).max(1)).then_some(near.1)
}

/// Levenshtein's distance, in which swapping two neighbours is one edit too: the commonest slip there is.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().take(LONGEST).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        for (typed, meant) in
            [("laese", "lease"), ("max-attempt", "max_attempt"), ("Lease", "lease"), ("leas", "lease")]
        {
            assert_eq!(nearest(typed, &["lease", "max_attempt", "sweep"]), Some(meant), "{typed}");
        }
        assert_eq!(nearest("something", &["lease", "sweep"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), &["lease"]), None);
        assert_eq!(nearest("", &["lease"]), None);
    }
}
