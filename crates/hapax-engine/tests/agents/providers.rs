use hapax_core::{Effect, Millis};
use hapax_engine::{Answered, Carrier, Place, Providers};

use crate::support::World;

#[test]
fn the_built_in_ones_are_what_their_documents_say() {
    let built_in = Providers::built_in();
    let header = |name: &str| match &built_in.of(name).unwrap().carrier {
        Carrier::Header(header) => header.to_string(),
        Carrier::Field(field) => panic!("{field}"),
    };
    assert_eq!(header("stripe:create-charge"), "Idempotency-Key");
    assert_eq!(header("openai:chat:completions"), "Idempotency-Key");
    assert_eq!(header("anthropic"), "Idempotency-Key");
    assert_eq!(header("aws:ec2"), "X-Amzn-Idempotency-Token");
    assert_eq!(built_in.of("stripe").unwrap().window(), Some(Millis::from_hours(22)));
    for (name, takes, window) in [
        ("ppro", "Request-Idempotency-Key", Millis::from_hours(22)),
        ("checkout", "Cko-Idempotency-Key", Millis::from_hours(22)),
        ("epay", "Idempotency-Key", Millis::from_hours(22)),
        ("truelayer", "Idempotency-Key", Millis::from_hours(660)),
    ] {
        assert_eq!((header(name).as_str(), built_in.of(name).unwrap().window()), (takes, Some(window)), "{name}");
    }
    // Injected, and not relied on: nobody has published for how long.
    for name in ["square", "openai", "anthropic", "aws"] {
        assert_eq!(built_in.of(name).unwrap().window(), None, "{name}");
    }
    assert!(built_in.of("send-email").is_none());
    assert_eq!(built_in.names().count(), 9);
}

#[tokio::test(start_paused = true)]
async fn users_add_theirs_and_the_key_goes_where_they_say() {
    let file = r#"
        [provider.acme-pay]
        field = "/meta/request_id"
        most = 32
        retention = "48h"
        honours = true
        retryable = [423]

        [provider.stripe]
        header = "Idempotency-Key"
    "#;
    let providers = Providers::from_toml(file).unwrap();
    assert_eq!(providers.of("acme-pay").unwrap().window(), Some(Millis::from_hours(44)));
    assert_eq!(providers.of("stripe").unwrap().window(), None, "replaced");
    let engine = World::new().engine();
    let place = Place { run: "r", node: "n", ordinal: 0, provider: "acme-pay:transfer" };
    let activity = || engine.activity("acme", &place).providers(&providers).effect(Effect::Irreversible);
    let busy = activity().perform(|outgoing| async move {
        assert_eq!(outgoing.key().len(), 32);
        assert_eq!(outgoing.field(), Some(("/meta/request_id", outgoing.key())));
        assert_eq!(outgoing.header(), None);
        Ok(Answered::new(423, "locked"))
    });
    assert!(busy.await.is_err(), "marked as retryable");
    let sent = activity().perform(|_| async { Ok(Answered::new(200, "sent")) }).await.unwrap();
    assert_eq!(sent.attempt, 2);
}

/// A misspelt knob must not mean that a call is made twice.
#[test]
fn whatever_is_wrong_in_a_file_is_refused_with_its_place() {
    for (text, names) in [
        ("[provider.x]\nhonours = true", "provider.x.honours"),
        ("[provider.x]\nhonors = true", "provider.x.honors"),
        ("[provider.x]\nheader = \"a b\"", "provider.x.header"),
        ("[provider.x]\nheader = \"a\"\nfield = \"/a\"", "provider.x"),
        ("[provider.x]\nfield = \"a\"", "provider.x.field"),
        ("[provider.x]\nmost = 8", "provider.x.most"),
        ("[provider.x]\nretention = \"1 day\"", "provider.x.retention"),
        ("[provider.x]\nretryable = [200]", "provider.x.retryable"),
        ("[providers.x]\nmost = 64", "providers"),
        ("[provider]\nx = 1", "provider.x"),
        ("[provider.\"a:b\"]\nmost = 64", "provider.a:b"),
        ("not toml", "not TOML"),
    ] {
        let error = Providers::from_toml(text).unwrap_err().to_string();
        assert!(error.contains(names) && error.contains("HX0092"), "{text}: {error}");
    }
}
