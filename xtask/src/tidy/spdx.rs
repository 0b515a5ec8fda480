//! SPDX licence expressions: `A OR B`, `A AND B`, `A WITH exception`, brackets, and the old `A/B`.

/// Whether the expression can be satisfied with allowed licences only. `None` if it cannot be read.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), allowed };
    parser.words.reverse();
    let result = parser.either()?;
    parser.words.is_empty().then_some(result)
}

struct Parser<'a> {
    /// The next word is the last one.
    words: Vec<&'a str>,
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn take(&mut self, word: &str) -> bool {
        let next = self.words.last() == Some(&word);
        if next {
            self.words.pop();
        }
        next
    }

    fn either(&mut self) -> Option<bool> {
        let mut result = self.both()?;
        while self.take("OR") {
            result |= self.both()?;
        }
        Some(result)
    }

    fn both(&mut self) -> Option<bool> {
        let mut result = self.single()?;
        while self.take("AND") {
            result &= self.single()?;
        }
        Some(result)
    }

    fn single(&mut self) -> Option<bool> {
        if self.take("(") {
            let result = self.either()?;
            return self.take(")").then_some(result);
        }
        let mut name = self.name()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Option<&'a str> {
        self.words.pop().filter(|word| !["(", ")", "AND", "OR", "WITH"].contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(expression: &str) -> Option<bool> {
        is_allowed(expression, &["MIT".to_owned(), "Zlib".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()])
    }

    #[test]
    fn one_allowed_choice_is_enough_but_every_part_of_an_and_counts() {
        assert_eq!(judge("MIT"), Some(true));
        assert_eq!(judge("GPL-3.0 OR MIT"), Some(true));
        assert_eq!(judge("GPL-3.0/MIT"), Some(true));
        assert_eq!(judge("GPL-3.0 AND MIT"), Some(false));
        assert_eq!(judge("(MIT OR GPL-3.0) AND Zlib"), Some(true));
        assert_eq!(judge("GPL-3.0 OR MIT AND BSD-3-Clause"), Some(false));
    }

    #[test]
    fn an_exception_is_part_of_the_name() {
        assert_eq!(judge("Apache-2.0 WITH LLVM-exception"), Some(true));
        assert_eq!(judge("Apache-2.0"), Some(false));
    }

    #[test]
    fn nonsense_is_not_allowed_by_accident() {
        for nonsense in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT MIT"] {
            assert_eq!(judge(nonsense), None, "{nonsense}");
        }
    }
}
