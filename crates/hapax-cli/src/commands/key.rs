use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key. It is shown once; the entry for the key file holds only its hash.
    New {
        /// What it is called in logs and audit rows
        name: String,
        #[arg(long)]
        tenant: String,
        /// reader, client, operator or admin
        #[arg(long, default_value = "client", value_parser = ["reader", "client", "operator", "admin"])]
        role: String,
    },
}

pub(super) fn run(key: Key) -> Result<(), Failure> {
    let Key::New { name, tenant, role } = key;
    let wrong = |why: String| Failure::Keys { path: "new key".into(), why };
    let made = hapax_server::generate_key().map_err(|error| wrong(error.to_string()))?;
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let entry = format!(
        "[[key]]\nname = {}\nhash = \"{}\"\ntenant = {}\nroles = [\"{role}\"]\n",
        quoted(&name),
        hapax_server::hash_key(&made),
        quoted(&tenant)
    );
    hapax_server::Keys::from_toml(&entry).map_err(|error| wrong(error.to_string()))?;
    eprintln!("The key, shown this once: {made}");
    eprintln!("For the key file (`hapax serve --keys FILE`):");
    println!("{entry}");
    Ok(())
}
