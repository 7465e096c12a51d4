//! The `#cloud-config` document a machine enrols with.
//!
//! Every scalar is a JSON string, which is a double-quoted YAML scalar with the same meaning as
//! long as it is ASCII; the types of token, URL and image hold it to that.

use serde_json::Value;

use super::agent::{Agent, CONFIG_FILE, TOKEN_FILE};
use crate::object::enrolment::TokenText;
use crate::object::manifest::SecretText;

const UNIT_FILE: &str = "/etc/systemd/system/usher-agent.service";

/// The whole document; it holds the token.
pub fn document(token: &TokenText, agent: &Agent<'_>) -> SecretText {
    let files = [
        file(TOKEN_FILE, "0600", token.expose()),
        file(CONFIG_FILE, "0600", &agent.config(TOKEN_FILE)),
        file(UNIT_FILE, "0644", &unit(agent)),
    ];
    let commands = [
        command(&["systemctl", "daemon-reload"]),
        command(&["systemctl", "enable", "--now", "usher-agent.service"]),
    ];
    SecretText::new(format!(
        "#cloud-config\npackages:\n- \"podman\"\nwrite_files:\n{}runcmd:\n{}",
        files.concat(),
        commands.concat(),
    ))
}

fn file(path: &str, permissions: &str, content: &str) -> String {
    format!(
        "- path: {}\n  owner: \"root:root\"\n  permissions: {}\n  content: {}\n",
        quoted(path),
        quoted(permissions),
        quoted(content),
    )
}

fn command(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().copied().map(quoted).collect();
    format!("- [{}]\n", words.join(", "))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn unit(agent: &Agent<'_>) -> String {
    let image = agent.image;
    format!(
        "[Unit]\n\
         Description=Usher agent\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         \n\
         [Service]\n\
         StateDirectory=usher\n\
         StateDirectoryMode=0700\n\
         ExecStartPre=-/usr/bin/podman rm --force usher-agent\n\
         ExecStart=/usr/bin/podman run --rm --name usher-agent --network host \
         --cap-add NET_ADMIN --security-opt label=disable \
         --volume /etc/usher:/etc/usher --volume /var/lib/usher:/var/lib/usher \
         {image} agent --config {CONFIG_FILE}\n\
         Restart=always\n\
         RestartSec=5\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}
