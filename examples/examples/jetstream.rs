//! A bus that delivers at least once, a consumer that handles once.
//!
//! Run it with `cargo run --example jetstream`. It starts a NATS server of its own, if one is installed.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use async_nats::jetstream::{
    self,
    consumer::{PullConsumer, pull},
    message::PublishMessage,
    stream,
};
use hapax::{Effect, HandlerError, Hapax, Message, Millis, Preset, Settle};
use hapax_jetstream::{DeadLetterSubject, Guarded, Options};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let Some(server) = Server::start()? else {
        println!("This example needs a NATS server, and none is installed here.");
        println!("Get one with `apt-get install nats-server`, or from https://nats.io, and run it again.");
        return Ok(());
    };
    let bus = jetstream::new(server.connect().await?);
    let subjects = vec!["orders.>".into(), "dead.>".into()];
    let orders = bus.create_stream(stream::Config { name: "ORDERS".into(), subjects, ..Default::default() }).await?;

    // The records lie on the same server; any other store would do.
    let store = hapax::open_store(&server.url()).await?;
    println!("The store says: {}.", store.durability());
    println!("That will do for parcels, so the policy allows it by name.");
    let mut policy = Preset::Bus.policy();
    policy.best_effort[Effect::Irreversible as usize] = true;
    // Whoever finds an order in somebody else's hands comes back after the rest of that lease.
    policy.lease = Millis::from_secs(2);
    let hapax = Hapax::from(Hapax::on(store).policy("bus", policy).build()?);

    println!("A nervous shop says one order three times, one that needs patience once, and one that nobody can read:");
    for (intent, order) in [("17", "17"), ("17", "17"), ("17", "17"), ("18", "18, slowly"), ("19", "%$#!")] {
        let said = PublishMessage::build().payload(order.into()).header("Hapax-Intent", intent);
        let stored = bus.send_publish("orders.new", said).await?.await?;
        println!("  message {}: order {order:?}", stored.sequence);
    }

    println!("Two consumers are delivered everything, both at once:");
    let (shipped, settled) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut consumers = Vec::new();
    for name in ["one", "two"] {
        let config = pull::Config {
            durable_name: Some(name.into()),
            filter_subject: "orders.>".into(),
            max_deliver: 50,
            ..Default::default()
        };
        let consumer: PullConsumer = orders.create_consumer(config).await?;
        let letters = DeadLetterSubject::new(bus.clone(), "dead.orders");
        let settled = Arc::clone(&settled);
        // Under one name: what one of them has handled, the other does not handle again.
        let options = Options::new(Effect::Irreversible)
            .name("shipping")
            .intent_header(Some("Hapax-Intent".into()))
            .observe(move |message, settle| {
                println!("  {name}: message {}, delivery {}: {settle:?}", message.sequence, message.delivery);
                if matches!(settle, Settle::Ack | Settle::Terminate) {
                    settled.fetch_add(1, SeqCst);
                }
            });
        consumers.push(Guarded::new(&hapax, "acme", consumer, Arc::new(letters), options)?);
    }
    let ship = {
        let shipped = Arc::clone(&shipped);
        move |message: Message| ship(message, Arc::clone(&shipped))
    };
    let all = || async {
        while settled.load(SeqCst) < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (first, second) = (consumers[0].run(4, ship.clone(), all()), consumers[1].run(4, ship, all()));
    tokio::time::timeout(Duration::from_secs(120), async { tokio::join!(first, second) }).await?;

    println!("Five messages, each delivered to two consumers: {} parcels left the house.", shipped.load(SeqCst));
    assert_eq!(shipped.load(SeqCst), 2);
    let letter = orders.get_last_raw_message_by_subject("dead.orders").await?;
    let why = letter.headers.get("Hapax-Why").map(ToString::to_string).unwrap_or_default();
    println!("One letter is left for a person: order {:?}, {why}.", String::from_utf8_lossy(&letter.payload));
    Ok(())
}

/// Ships an order. The second delivery of the slow one finds the truck back.
async fn ship(message: Message, shipped: Arc<AtomicU32>) -> Result<(), HandlerError> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let order = String::from_utf8_lossy(&message.payload).into_owned();
    let Some(number) = order.split(',').next().and_then(|number| number.parse::<u32>().ok()) else {
        return Err(HandlerError::Undecodable(format!("{order:?} has no number")));
    };
    if order.ends_with("slowly") && ASKED.fetch_add(1, SeqCst) == 0 {
        let (delay, why) = (Duration::from_millis(300), "the truck is out".to_owned());
        return Err(HandlerError::Retryable { delay, why });
    }
    println!("  >> order {number} is shipped");
    shipped.fetch_add(1, SeqCst);
    Ok(())
}

/// A server of this program's own.
struct Server {
    child: Child,
    port: u16,
    data: PathBuf,
}

impl Server {
    fn start() -> Result<Option<Self>, Failed> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let data = std::env::temp_dir().join(format!("hapax-jetstream-{}", std::process::id()));
        // Debian puts it where not every user looks.
        for program in ["nats-server", "/usr/sbin/nats-server"] {
            let mut command = Command::new(program);
            command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"]).arg(&data);
            match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
                Ok(child) => return Ok(Some(Self { child, port, data })),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    async fn connect(&self) -> Result<async_nats::Client, Failed> {
        let mut tries = 0;
        loop {
            match async_nats::connect(self.url()).await {
                Ok(client) => return Ok(client),
                Err(error) if tries == 500 => return Err(error.into()),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _left = std::fs::remove_dir_all(&self.data);
    }
}
