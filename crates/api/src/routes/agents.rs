//! The calls of agents, with the secrets of their nodes.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::object::id::{ProjectId, ResourceId};
use usher_domain::tokens;
use usher_wire::http as wire;

use crate::call::{Call, no_content, ok};
use crate::ports::{AgentFeed, Answer, Failure};
use crate::route::{Right, Route};
use crate::stream::{self, Source};
use crate::views::{Beat, Registration};

/// The longest agent version that is stored, in characters.
const VERSION_MAX: usize = 64;

pub(super) fn routes() -> Vec<Route> {
    let beat = "/v1/nodes/{id}/heartbeat";
    let routes = vec![
        Route::new((Method::POST, wire::REGISTER_PATH), Right::Public, "Enrol a node", register)
            .takes::<wire::RegisterRequest>()
            .gives::<wire::RegisterResponse>(200),
        Route::new((Method::POST, beat), Right::Node, "Send a heartbeat", heartbeat)
            .takes::<wire::HeartbeatRequest>()
            .gives::<wire::HeartbeatResponse>(200),
        Route::new((Method::GET, "/v1/nodes/{id}/events"), Right::Node, "Stream messages", events)
            .streams::<wire::AgentEvent>(&[]),
        Route::new((Method::POST, "/v1/nodes/{id}/leave"), Right::Node, "Deregister", leave)
            .takes::<wire::LeaveRequest>(),
    ];
    routes.into_iter().map(Route::by_agents).collect()
}

/// The agent version without control characters, cut to length.
fn version(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(VERSION_MAX).collect()
}

/// Malformed ids are refused like a token of another project.
async fn register(call: Call) -> Answer<Response<Body>> {
    let body: wire::RegisterRequest = call.body()?;
    let foreign = || Failure::from(tokens::Refusal::ProjectMismatch);
    let project: ProjectId = body.project_id.parse().map_err(|_| foreign())?;
    let resource: ResourceId = body.resource_id.parse().map_err(|_| foreign())?;
    let registration = Registration {
        text: body.bootstrap_token.expose().parse().map_err(Failure::from)?,
        project,
        resource,
        nonce: body.nonce.parse().map_err(Failure::from)?,
        public_key: body.public_key.parse().map_err(Failure::from)?,
        agent_version: version(&body.agent_version),
    };
    let enrolled = call.ports().agents.register(registration).await?;
    ok(&wire::RegisterResponse {
        node_id: enrolled.node.to_string(),
        node_secret: wire::Secret::new(enrolled.secret.expose()),
        heartbeat_ms: u64::try_from(enrolled.heartbeat.as_millis()).unwrap_or(u64::MAX),
    })
}

async fn heartbeat(call: Call) -> Answer<Response<Body>> {
    let body: wire::HeartbeatRequest = call.body()?;
    let beat = Beat {
        acknowledged: body.acknowledged,
        in_flight: body.in_flight,
        draining: body.draining,
        agent_version: version(&body.agent_version),
    };
    let answer = call.ports().agents.heartbeat(call.node()?, beat).await?;
    let grace_ms = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    ok(&wire::HeartbeatResponse {
        snapshot: answer.snapshot,
        drain: answer.drain.map(|it| wire::Drain { grace_ms: grace_ms(it) }),
        node_secret: answer.secret.map(|it| wire::Secret::new(it.expose())),
    })
}

async fn events(call: Call) -> Answer<Response<Body>> {
    let last = call.headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let last = last.filter(|it| !it.is_empty()).map(str::to_owned);
    let feed = call.ports().agents.stream(call.node()?, last).await?;
    Ok(stream::answer(LogEntry(feed)))
}

struct LogEntry(Box<dyn AgentFeed>);

impl Source for LogEntry {
    async fn next(&mut self) -> Option<String> {
        let message = self.0.next().await?;
        Some(stream::event(message.id.as_deref(), None, &message.event))
    }
}

async fn leave(call: Call) -> Answer<Response<Body>> {
    let wire::LeaveRequest { in_flight } = call.body()?;
    call.ports().agents.leave(call.node()?, in_flight).await?;
    Ok(no_content())
}
