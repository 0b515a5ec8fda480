//! What the gateway is told: files, flags, tenants, places outside.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::os::unix::fs::PermissionsExt as _;

use std::sync::atomic::Ordering::SeqCst;

use crate::support::{Conn, Dir, Reply, Start, Upstream, get, post, request};

#[test]
fn the_start_says_where_records_are_what_is_promised_and_how_tenants_are_told_apart() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let said = gateway.said().join("\n");
    for words in [
        "records   file:./hapax-data, which promises: durable",
        "tenants   credential (a keyed digest of Authorization, X-Api-Key)",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let secret = dir.path().join("hapax-data/secret");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    drop(gateway);
    let memory = Start::at(&dir).upstream(upstream.address).arg("--store", "memory:").go();
    assert!(memory.said().join("\n").contains("which promises: best effort"));
    drop(memory);
    // A secret that others may read, or that is damaged, is not used.
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = Start::at(&dir).upstream(upstream.address).fails();
    assert!(code == 1 && said.contains("HX0060") && said.contains("600"), "{code} {said}");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&secret, "not hexadecimal").unwrap();
    let (code, said) = Start::at(&dir).upstream(upstream.address).fails();
    assert!(code == 1 && said.contains("damaged"), "{code} {said}");
}

#[test]
fn what_cannot_be_used_is_refused_with_what_to_write() {
    let dir = Dir::new();
    for (file, words) in [
        ("", "there is no upstream"),
        ("[gatway]\n", "did you mean `gateway`?"),
        ("[gateway]\nupstram = \"http://a\"\n", "did you mean `upstream`?"),
        ("[gateway]\nupstream = \"a\"\n", "is no upstream"),
        ("[gateway]\nlisten = \"80\"\n", "needs an address and a port"),
        ("[gateway]\ntenant = \"header:X\"\n", "trusted_proxies"),
        ("[gateway]\ntenant = \"jwt:sub\"\n", "jwks"),
        ("[gateway]\ntenant = \"everybody\"\n", "`fixed:NAME`"),
        ("[gateway]\ntls_key = \"x\"\n", "a key needs its certificate"),
        ("[gateway]\ntrusted_proxies = [\"10.0.0.0/40\"]\n", "is no address or network"),
        ("[upstream.a]\n", "`url`: says where it is"),
        ("[upstream.a]\nurl = \"http://a\"\ntimeout = 5\n", "a bare number has no unit"),
        ("[[route]]\n", "says which requests it is for"),
        ("[[route]]\nmatch = \"post /x\"\n", "capitals"),
        ("[[route]]\nmatch = \"POST /x\"\ndialect = \"strip\"\n", "did you mean `stripe`?"),
        ("[[route]]\nmatch = \"POST /x\"\neffect = \"safe\"\n", "`unsafe`"),
        ("[[route]]\nmatch = \"POST /x\"\nupstream = \"nowhere\"\n", "there is no `[upstream.nowhere]`"),
        ("[[route]]\nmatch = \"POST /x\"\ntimeout = \"0s\"\n", "0 would let nothing through"),
        ("[[route]]\nmatch = \"POST /x\"\nprotect = false\ntimeout = \"5s\"\n", "first_byte_timeout"),
        ("[limits]\nconnections = 0\n", "at least 1"),
        ("[route]\nmatch = \"POST /x\"\n", "write `[[route]]`"),
        ("[surface.http]\nlaese = \"1s\"\n", "did you mean `lease`?"),
    ] {
        let (code, said) = Start::at(&dir).file(file).fails();
        assert_eq!(code, 2, "{file}: {said}");
        assert!(said.contains(words) && said.contains("[HX00"), "{file}: {said}");
    }
    let (code, said) = Start::at(&dir).file("").arg("--upstream", "nonsense").fails();
    assert!(code == 2 && said.contains("--upstream"), "{said}");
    let (code, said) = Start::at(&dir).arg("--upstream", "http://a").arg("--store", "file:").fails();
    assert!(code == 2 && said.contains("write `file:DIRECTORY` or `memory:`"), "{said}");
    let (code, said) = Start::at(&dir).arg("--upstream", "http://a").arg("--store", "redis:").fails();
    assert!(code == 2 && said.contains("write redis://"), "{said}");
}

/// The example of docs/gateway.md is a file that works.
#[test]
fn the_documented_example_is_taken() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(example).go();
    assert!(gateway.said().join("\n").contains("/egress/stripe/ to https://api.stripe.com"));
}

/// Flags win over the environment, and that over the file.
#[test]
fn the_later_wins() {
    let (file, env, flag) = (Upstream::counting(), Upstream::counting(), Upstream::counting());
    let dir = Dir::new();
    let text = format!("[gateway]\nupstream = \"http://{}\"\n", file.address);
    let url = |upstream: &Upstream| format!("http://{}", upstream.address);
    let gateway = Start::at(&dir).file(&text).go();
    get(gateway.address, "/");
    drop(gateway);
    let gateway = Start::at(&dir).file(&text).env("HAPAX_UPSTREAM", &url(&env)).go();
    get(gateway.address, "/");
    drop(gateway);
    let gateway = Start::at(&dir).file(&text).env("HAPAX_UPSTREAM", &url(&env)).upstream(flag.address).go();
    get(gateway.address, "/");
    assert_eq!((file.count(), env.count(), flag.count()), (1, 1, 1));
}

#[test]
fn routes_have_their_own_rules() {
    let (upstream, other) = (Upstream::counting(), Upstream::new(|_, _, _| Reply::json(200, "\"other\"")));
    let dir = Dir::new();
    let file = format!(
        "[gateway]\nupstream = \"http://{}\"\n[upstream.other]\nurl = \"http://{}/base\"\n\
         [[route]]\nmatch = \"POST /v1/charges\"\ndialect = \"stripe\"\nkey = \"required\"\nsurface = \"payments\"\n\
         [[route]]\nmatch = \"* /hooks/{{rest...}}\"\nprotect = false\nupstream = \"other\"\n\
         [[route]]\nmatch = \"PUT /things/{{id}}\"\nkey_headers = [\"X-Request-Id\"]\n",
        upstream.address, other.address
    );
    let gateway = Start::at(&dir).file(&file).go();
    let without = Conn::to(gateway.address).send(request("POST", "/v1/charges", &[], "{}")).answer();
    assert_eq!(without.status, 400);
    assert!(without.says("\"error\":{"), "{}", without.text());
    for _ in 0..2 {
        assert_eq!(post(gateway.address, "/hooks/a", "k1", "{}").text(), "\"other\"");
    }
    assert_eq!(other.count(), 2);
    assert_eq!(other.asked()[0].path, "/base/hooks/a");
    let put =
        |path: &str| Conn::to(gateway.address).send(request("PUT", path, &[("X-Request-Id", "k1")], "{}")).answer();
    assert!(!put("/things/1").is_replay() && put("/things/1").is_replay());
    // The same endpoint with another parameter is another request under the same key.
    assert_eq!(put("/things/2").status, 422);
}

#[test]
fn egress_goes_to_the_list_and_nowhere_else() {
    let (upstream, outside) = (Upstream::counting(), Upstream::counting());
    let dir = Dir::new();
    let file = format!(
        "[gateway]\nupstream = \"http://{}\"\n[egress.pay]\nurl = \"http://{}/api\"\n",
        upstream.address, outside.address
    );
    let gateway = Start::at(&dir).file(&file).go();
    for replay in [false, true] {
        let answer = post(gateway.address, "/egress/pay/v1/charges?x=1", "k1", "{}");
        assert_eq!((answer.status, answer.is_replay()), (201, replay));
    }
    let asked = outside.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "/api/v1/charges?x=1");
    assert_eq!(asked[0].header("host"), Some(outside.address.to_string().as_str()));
    for path in ["/egress/other/v1", "/egress/", "/egress/http://evil/", "/egress/pay@evil/", "/egress//pay"] {
        let answer = post(gateway.address, path, "k2", "{}");
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.says("HX0058"), "{}", answer.text());
    }
    for path in ["/egress/pay/../../x", "/egress/pay/%2e%2e/x", "/egress/pay/..%2fx"] {
        assert_eq!(post(gateway.address, path, "k2", "{}").status, 400, "{path}");
    }
    assert_eq!((upstream.count(), outside.count()), (0, 1));
}

/// A tenant's header is believed of whom the file trusts, and of nobody else.
#[test]
fn a_tenant_in_a_header_is_believed_of_trusted_proxies_only() {
    let upstream = Upstream::counting();
    let file = |trusted: &str| {
        format!(
            "[gateway]\nupstream = \"http://{}\"\ntenant = \"header:X-Tenant\"\ntrusted_proxies = [\"{trusted}\"]\n",
            upstream.address
        )
    };
    let dir = Dir::new();
    let ask = |address, headers: &[(&str, &str)]| {
        let headers = [&[("Idempotency-Key", "k1")], headers].concat();
        Conn::to(address).send(request("POST", "/pay", &headers, "{}")).answer()
    };
    let gateway = Start::at(&dir).file(&file("127.0.0.0/8")).go();
    assert!(!ask(gateway.address, &[("X-Tenant", "a")]).is_replay());
    assert!(!ask(gateway.address, &[("X-Tenant", "b")]).is_replay());
    assert!(ask(gateway.address, &[("X-Tenant", "a"), ("Authorization", "whatever")]).is_replay());
    for headers in [&[][..], &[("X-Tenant", "")], &[("X-Tenant", "a"), ("X-Tenant", "b")]] {
        assert_eq!(ask(gateway.address, headers).status, 401);
    }
    drop(gateway);
    let gateway = Start::at(&dir).file(&file("10.0.0.0/8")).go();
    assert_eq!(ask(gateway.address, &[("X-Tenant", "a")]).status, 401);
    // With or without a key: the upstream may believe what comes through the gateway.
    let before = upstream.count();
    for method in ["GET", "POST"] {
        let pretended = request(method, "/pay", &[("X-Tenant", "victim")], "");
        assert_eq!(Conn::to(gateway.address).send(pretended).answer().status, 401, "{method}");
        assert_eq!(upstream.count(), before, "{method}: it was sent on");
    }
    assert_eq!(Conn::to(gateway.address).send(request("GET", "/pay", &[], "")).answer().status, 201);
    assert_eq!(upstream.count(), 3);
}

/// A credential that was revoked gets no replay where the route asks the upstream first.
#[test]
fn a_revoked_credential_gets_no_replay() {
    let revoked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let gone = std::sync::Arc::clone(&revoked);
    let upstream = Upstream::new(move |asked, _, _| match asked.path.as_str() {
        "/me" if gone.load(std::sync::atomic::Ordering::SeqCst) => Reply::json(401, "{}"),
        "/me" => {
            assert_eq!((asked.method.as_str(), asked.header("authorization")), ("GET", Some("Bearer one")));
            Reply::json(200, "{}")
        }
        _ => Reply::json(201, "{\"secret\":true}"),
    });
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /pay\"\nreauthorize = \"/me\"\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    assert!(post(gateway.address, "/pay", "k1", "{}").is_replay());
    revoked.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!(answer.status, 403);
    assert!(!answer.text().contains("secret"));
    let paths: Vec<String> = upstream.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/pay", "/me", "/me"]);
}

/// The upstream cannot be asked whether a caller may see its own answer: that is no *no*. A caller that is sent away takes
/// another key and pays again.
#[test]
fn a_question_without_an_answer_sends_nobody_away() {
    let said = std::sync::Arc::new(std::sync::atomic::AtomicU16::new(503));
    let says = std::sync::Arc::clone(&said);
    let upstream = Upstream::new(move |asked, _, _| match (asked.path.as_str(), says.load(SeqCst)) {
        ("/me", 0) => Reply::Last(Vec::new()),
        ("/me", status) => Reply::json(status, "{}"),
        _ => Reply::json(201, "{\"secret\":true}"),
    });
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /pay\"\nreauthorize = \"/me\"\nkey_headers = [\"X-Request-Id\"]\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let ask = || {
        let headers = [
            ("X-Request-Id", "k1"),
            ("Idempotency-Key", "other"),
            ("Authorization", "Bearer one"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("Forwarded", "for=10.0.0.1"),
            ("X-Real-Ip", "10.0.0.1"),
        ];
        Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer()
    };
    assert_eq!(ask().status, 201);
    for unknown in [503, 500, 429, 408, 0] {
        said.store(unknown, SeqCst);
        let answer = ask();
        assert_eq!(answer.status, 503, "{unknown}: {}", answer.text());
        assert!(answer.says("\"next_action\":\"retry_same_key\""), "{unknown}: {}", answer.text());
        assert!(answer.says("\"safe_new_key\":false") && answer.header("retry-after").is_some(), "{}", answer.text());
        assert!(!answer.text().contains("secret"));
    }
    for no in [401, 403, 404, 302] {
        said.store(no, SeqCst);
        let answer = ask();
        assert_eq!(answer.status, 403, "{no}: {}", answer.text());
        assert!(answer.says("\"next_action\":\"ask_operator\""), "{no}: {}", answer.text());
        assert!(answer.says("\"safe_new_key\":false"), "{no}: {}", answer.text());
    }
    said.store(204, SeqCst);
    assert!(ask().is_replay());
    // And whoever is asked hears where the question really comes from, and takes it for no retry.
    for asked in upstream.asked().iter().filter(|asked| asked.path == "/me") {
        assert_eq!(asked.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(asked.header("forwarded"), Some("for=127.0.0.1;proto=http;host=\"shop.example\""));
        for absent in ["x-real-ip", "idempotency-key", "x-request-id", "content-type"] {
            assert_eq!(asked.header(absent), None, "{absent}");
        }
    }
    assert_eq!(upstream.asked().iter().filter(|asked| asked.path == "/pay").count(), 1);
}

/// Shadow mode enforces nothing: what has no key, a bad key, no credential or too long a body reaches the upstream as if we
/// were not there.
#[test]
fn shadow_mode_lets_everything_through() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let file = "[gateway]\ntenant = \"header:X-Tenant\"\ntrusted_proxies = [\"127.0.0.1\"]\n[default]\nmode = \"shadow\"\n\
                [[route]]\nmatch = \"POST /pay\"\nkey = \"required\"\nmax_request_body = \"1KiB\"\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let (key, tenant) = (("Idempotency-Key", "k1"), ("X-Tenant", "acme"));
    let long = "x".repeat(100_000);
    type Asking<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
    let requests: [Asking<'_>; 7] = [
        ("first", &[key, tenant], "{}"),
        ("again", &[key, tenant], "{}"),
        ("another under its key", &[key, tenant], "[]"),
        ("no key", &[tenant], "{}"),
        ("a bad key", &[("Idempotency-Key", ""), tenant], "{}"),
        ("no tenant", &[key], "{}"),
        ("too long", &[key, tenant], &long),
    ];
    for (at, (name, headers, body)) in requests.iter().enumerate() {
        let answer = Conn::to(gateway.address).send(request("POST", "/pay", headers, body)).answer();
        assert_eq!((answer.status, answer.text()), (201, format!("{{\"charge\":{at}}}")), "{name}");
        assert_eq!(upstream.asked()[at].body, body.as_bytes(), "{name}");
    }
    // A body whose length nobody knows before it is too long.
    let mut conn = Conn::to(gateway.address);
    conn.send(
        "POST /pay HTTP/1.1\r\nHost: a\r\nX-Tenant: acme\r\nIdempotency-Key: k2\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for _ in 0..20 {
        conn.send(format!("400\r\n{}\r\n", "y".repeat(1024)));
    }
    assert_eq!(conn.send("0\r\n\r\n").answer().status, 201);
    assert_eq!(upstream.asked()[requests.len()].body.len(), 20 * 1024);
}

/// The new routes fit the new policies and not the old ones: the file is whole, so it is taken.
#[test]
fn a_reload_is_judged_by_its_own_policies() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let before = "[surface.orders]\nkey = { source = [\"automatic\"] }\n[[route]]\nmatch = \"POST /orders\"\nsurface = \"orders\"\n";
    let gateway = Start::at(&dir).file(before).upstream(upstream.address).go();
    let ask = || Conn::to(gateway.address).send(request("POST", "/orders", &[], "{}")).answer();
    assert!(!ask().is_replay() && ask().is_replay(), "the key is made of the request");
    dir.write(
        "hapax.toml",
        "[surface.orders]\nlease = \"30s\"\n[[route]]\nmatch = \"POST /orders\"\nsurface = \"orders\"\nkey = \"required\"\n",
    );
    gateway.signal("HUP");
    gateway.wait_for("reloaded");
    let said = gateway.said().join("\n");
    assert!(!said.contains("not reloaded"), "{said}");
    assert_eq!(ask().status, 400);
}

/// Keys, credentials and bodies are nowhere: not in what the gateway says, not in its records' readable parts.
#[test]
fn planted_secrets_appear_nowhere() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let headers = [
        ("Idempotency-Key", "planted-key-1"),
        ("Authorization", "Bearer planted-token"),
        ("Cookie", "s=planted-cookie"),
    ];
    let ask = |body| Conn::to(gateway.address).send(request("POST", "/pay", &headers, body)).answer();
    let answers = [ask("\"planted-body\""), ask("\"planted-body\""), ask("\"other\"")];
    for answer in &answers {
        assert!(!answer.text().contains("planted") && !format!("{:?}", answer.headers).contains("planted"));
    }
    let said = gateway.said().join("\n");
    gateway.kill();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.path().join("hapax-data")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(7).any(|window| window == b"planted") {
                found.push(path);
            }
        }
    }
    assert!(found.is_empty() && !said.contains("planted"), "{found:?} {said}");
}

/// Whoever moves from the seed keeps its `[idempotency]`. A gateway that read it and did nothing would keep answers for five
/// minutes instead of a day, under keys of a Redis that nobody else has.
#[test]
fn the_seeds_names_count_in_a_gateway_of_its_own() {
    let (dir, upstream) = (Dir::new(), Upstream::counting());
    let route = "[[route]]\nmatch = \"POST /pay\"\nsurface = \"api\"\n";
    let start = |seed: &str, route: &str| {
        let file = format!("[gateway]\nupstream = \"http://{}\"\n{route}[idempotency]\n{seed}\n", upstream.address);
        Start::at(&dir).arg("--store", "memory:").file(&file)
    };
    // No key is sent: one is made of the request, as the seed does.
    let pay = |address| {
        let request =
            request("POST", "/pay", &[("authorization", "a"), ("content-type", "application/json")], "{\"n\":1}");
        Conn::to(address).send(request).answer()
    };
    let gateway = start("auto_generate_keys = true\ndefault_ttl_hours = 24", route).go();
    let (first, again) = (pay(gateway.address), pay(gateway.address));
    assert!(!first.is_replay() && again.is_replay(), "{} {}", first.text(), again.text());
    assert_eq!(upstream.count(), 1);
    assert!(!gateway.said().join("\n").contains("warning: `[idempotency]`"), "{:?}", gateway.said());
    drop(gateway);
    // Switched off: nothing is stopped.
    let gateway = start("enabled = false\nauto_generate_keys = true", route).go();
    let (first, again) = (pay(gateway.address), pay(gateway.address));
    assert!(!first.is_replay() && !again.is_replay());
    assert_eq!(upstream.count(), 3);
    drop(gateway);
    // What finds no place is said, with what to do; what cannot be meant is refused.
    let gateway = start("default_ttl_hours = 24\nkey_prefix = \"shop\"", "").go();
    let said = gateway.said().join("\n");
    assert!(said.contains("write `surface = \"api\"`") && said.contains("only the keys of a Redis"), "{said}");
    drop(gateway);
    let twice = format!("{route}[surface.api]\npreset = \"api\"\nsuccess = \"1h\"\n");
    for (seed, route, words) in [
        ("default_ttl_houres = 24", route, "did you mean `default_ttl_hours`?"),
        ("default_ttl_hours = 24", twice.as_str(), "cannot both be meant"),
    ] {
        let (code, said) = start(seed, route).fails();
        assert!(code != 0 && said.contains(words), "{code} {said}");
    }
    let (code, said) = start("", route).env("IDEMPOTENCY_PENDING_TTL", "5").fails();
    assert!(code != 0 && said.contains("IDEMPOTENCY_PENDING_TTL_SECONDS"), "{code} {said}");
}

/// The records of the seed's Redis begin with its prefix: a gateway without it would know none of them, and do all again.
#[test]
fn the_seeds_prefix_is_that_of_the_gateways_redis() {
    let (dir, upstream, redis) = (Dir::new(), Upstream::counting(), hapax_testkit::Redis::start());
    let file = format!(
        "[gateway]\nupstream = \"http://{}\"\nstore = \"{}\"\n[idempotency]\nkey_prefix = \"shop\"\n",
        upstream.address,
        redis.url()
    );
    let gateway = Start::at(&dir).file(&file).go();
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    let ours = redis.say("EVAL \"return #redis.call('keys','shop:*')\" 0");
    assert_ne!(ours.trim(), ":0", "the record has the prefix");
}
