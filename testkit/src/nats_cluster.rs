use crate::{Nats, nats::ask, server::free_port, wait_until};

/// Three NATS servers that keep each stream together.
pub struct NatsCluster {
    pub servers: Vec<Nats>,
}

impl NatsCluster {
    pub fn start() -> Self {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let routes: Vec<String> = ports.iter().map(|(_, route)| format!("nats-route://127.0.0.1:{route}")).collect();
        let mut servers: Vec<Nats> = (1..)
            .zip(&ports)
            .map(|(number, (port, route))| {
                let lines = format!(
                    "server_name: n{number}\ncluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: {routes:?} }}"
                );
                Nats::launch(*port, &lines)
            })
            .collect();
        for server in &mut servers {
            server.wait();
        }
        let cluster = Self { servers };
        wait_until("the servers have chosen who leads", || {
            ask(cluster.servers[0].port(), "$JS.API.INFO", "").is_some_and(|said| said.get("error").is_none())
        });
        cluster
    }

    /// All servers, and a bucket on all three.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("nats://{}/hapax?replicas=3", hosts.join(","))
    }

    /// Who leads the stream of the bucket, asked of anybody that answers.
    pub fn leader(&self) -> Option<usize> {
        self.servers.iter().find_map(|server| {
            let said = ask(server.port(), "$JS.API.STREAM.INFO.KV_hapax", "")?;
            let name = said["cluster"]["leader"].as_str()?;
            name.strip_prefix('n')?.parse::<usize>().ok()?.checked_sub(1)
        })
    }

    /// `kill -9` of whoever leads, and waits until another does.
    pub fn fail_over(&mut self) {
        let mut led = None;
        wait_until("somebody leads", || {
            led = self.leader();
            led.is_some()
        });
        let led = led.unwrap();
        self.servers[led].kill();
        wait_until("another leads", || self.leader().is_some_and(|leader| leader != led));
    }
}
