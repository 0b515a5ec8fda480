//! Programs that show Hapax at work; see `examples/`.
