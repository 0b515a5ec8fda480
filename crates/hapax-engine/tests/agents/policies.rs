use hapax_core::{Preset, identity::Surface};
use hapax_engine::Policies;

const OURS: [(&str, Preset); 7] = [
    ("activity", Preset::Activity),
    ("beat", Preset::Beat),
    ("bus", Preset::Bus),
    ("compensation", Preset::Activity),
    ("job", Preset::Job),
    ("run", Preset::Run),
    ("tool", Preset::Tool),
];

fn surface(name: &str) -> Surface {
    Surface::new(name).unwrap()
}

/// Somebody says how long answers are kept on all surfaces, and calls one of them `run`. What we think of runs must not
/// come before what they said.
#[test]
fn a_preset_of_ours_never_overrides_what_somebody_said() {
    let nothing_said = Policies::default();
    for (name, preset) in OURS {
        assert_eq!(**nothing_said.of(&surface(name)), preset.policy(), "{name}");
    }
    let (for_all, _) = Policies::from_toml("[default]\nsuccess = \"7d\"\n[surface.job]\nsuccess = \"3d\"\n").unwrap();
    for (name, _) in OURS {
        let kept = for_all.of(&surface(name)).success.to_string();
        assert_eq!(kept, if name == "job" { "3d" } else { "7d" }, "{name}");
    }
    // Who wants the preset all the same says so.
    let (mixed, _) = Policies::from_toml("[default]\nsuccess = \"7d\"\n[surface.run]\npreset = \"run\"\n").unwrap();
    assert_eq!(mixed.of(&surface("run")).success, Preset::Run.policy().success);
    // A file that says nothing about all surfaces leaves the others as they were.
    let (one, _) = Policies::from_toml("[surface.payments]\nsuccess = \"7d\"\n").unwrap();
    for (name, preset) in OURS {
        assert_eq!(**one.of(&surface(name)), preset.policy(), "{name}");
    }
}
