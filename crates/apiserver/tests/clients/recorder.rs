//! Events that a controller publishes.

use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::api::events::v1::Event as RegardingEvent;
use kube_client::api::{ListParams, PostParams};
use kube_client::{Api, Resource as _};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use usher_apiserver::ApiServer;

use crate::config_map;

// Requirement: AK-21
#[tokio::test]
async fn repeated_events_become_a_series_in_both_apis() {
    let server = ApiServer::builder().build().await.expect("a server");
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let map = maps.create(&PostParams::default(), &config_map("a", "k", "v")).await.expect("made");
    let reporter = Reporter { controller: "tester".to_owned(), instance: None };
    let recorder = Recorder::new(server.client(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "Tried".to_owned(),
        note: Some("it was tried".to_owned()),
        action: "Trying".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &map.object_ref(&())).await.expect("published");
    }
    let regarding: Api<RegardingEvent> = Api::default_namespaced(server.client());
    let regarding = regarding.list(&ListParams::default()).await.expect("events").items;
    let written: Vec<_> = regarding
        .iter()
        .map(|event| {
            let about = event.regarding.as_ref().and_then(|about| about.uid.clone());
            (event.note.as_deref(), event.series.as_ref().map(|series| series.count), about)
        })
        .collect();
    assert_eq!(written, [(Some("it was tried"), Some(3), map.metadata.uid.clone())]);
    let core: Api<CoreEvent> = Api::default_namespaced(server.client());
    let selected = ListParams::default().fields("involvedObject.name=a,reason=Tried");
    let core = core.list(&selected).await.expect("events").items;
    let written: Vec<_> =
        core.iter().map(|event| (event.message.as_deref(), event.type_.as_deref())).collect();
    assert_eq!(written, [(Some("it was tried"), Some("Warning"))]);
}
