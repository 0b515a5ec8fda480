//! `hapax demo`: a small shop, the gateway in front of it, and a crowd of clients that behave as clients do. They time
//! out and try again, click twice, change their mind, and in the middle of it the gateway is killed. The same crowd first
//! meets the shop without Hapax, so that one sees what is at stake.

mod client;
mod crowd;
mod gateway;
mod order;
mod shop;
mod table;
mod tally;

use std::time::Duration;

use crate::{args::DemoArgs, failure::Failure};

use self::{crowd::Crowd, gateway::Gateway, order::Order, shop::Shop, table::Column};

/// Plays both halves and prints what happened. Fails if any order was charged twice behind Hapax.
pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let (without, with) = Demo(args).play().await.map_err(Failure::Demo)?;
    if args.json {
        outln!("{}", serde_json::json!({ "without": without.json(), "with": with.json() }));
    } else {
        table::print(&without, &with);
    }
    if with.charged_twice == 0 { Ok(()) } else { Err(Failure::ChargedTwice(with.charged_twice)) }
}

struct Demo(DemoArgs);

impl Demo {
    async fn play(&self) -> Result<(Column, Column), String> {
        let orders = Order::crowd(self.0.orders, self.0.seed);
        self.say(&format!(
            "{} customers order from a small shop. Some click twice, some give up waiting and try again, some change\n\
             the amount and send it under the same key. The shop is slow at times, refuses at times, and sometimes\n\
             charges and dies before it can say so.\n",
            orders.len()
        ));
        self.say("1. The shop alone.");
        let shop = Shop::open().await?;
        let tally = Crowd::new(shop.address(), &orders).run().await;
        let without = Column::new(&orders, &tally, &shop.close());

        self.say("2. The same crowd, the same shop, `hapax gateway` in front. Half-way it is killed (kill -9) and started again.");
        let shop = Shop::open().await?;
        let mut gateway = Gateway::start(shop.address()).await?;
        let crowd = Crowd::new(gateway.address(), &orders);
        let progress = crowd.progress();
        let running = tokio::spawn(crowd.run());
        progress.reaches(orders.len() / 2).await;
        gateway.kill_and_restart().await?;
        let tally = running.await.map_err(|error| error.to_string())?;
        // Whatever was sent before the last answer may still be under way in the shop.
        tokio::time::sleep(Duration::from_millis(600)).await;
        let with = Column::new(&orders, &tally, &shop.close());
        gateway.stop().await;
        Ok((without, with))
    }

    fn say(&self, text: &str) {
        if !self.0.json {
            outln!("{text}");
        }
    }
}
