//! nginx as a plain reverse proxy that keeps its connections, as one would set it up.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use super::process::{Running, free_address};

pub(crate) fn proxy(upstream: SocketAddr, place: &Path) -> Result<Running, String> {
    installed()?;
    let place = std::path::absolute(place.join("nginx")).map_err(|error| error.to_string())?;
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let address = free_address()?;
    let file = place.join("nginx.conf");
    fs::write(&file, configuration(upstream, address, &place)).map_err(|error| error.to_string())?;
    Running::at(address, Command::new("nginx").arg("-c").arg(&file).arg("-p").arg(&place))
}

fn configuration(upstream: SocketAddr, address: SocketAddr, place: &Path) -> String {
    let place = place.display();
    format!(
        "user root;
        daemon off;
        worker_processes 2;
        pid {place}/pid;
        error_log {place}/error.log crit;
        events {{ worker_connections 4096; }}
        http {{
            access_log off;
            client_body_temp_path {place}/body;
            proxy_temp_path {place}/proxy;
            fastcgi_temp_path {place}/fastcgi;
            uwsgi_temp_path {place}/uwsgi;
            scgi_temp_path {place}/scgi;
            keepalive_requests 1000000000;
            upstream service {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
            server {{
                listen {address} reuseport;
                location / {{
                    proxy_pass http://service;
                    proxy_http_version 1.1;
                    proxy_set_header Connection \"\";
                }}
            }}
        }}"
    )
}

fn installed() -> Result<(), String> {
    let there = Command::new("nginx").arg("-v").output().is_ok_and(|output| output.status.success());
    if there { Ok(()) } else { Err("nginx is the peer here: apt-get install nginx-light".to_owned()) }
}
