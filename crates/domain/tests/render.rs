//! What the renderers write, byte for byte, and what a foreign parser reads in it.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use usher_domain::blueprint::{
    CompositeType, InjectionStrategy, MeshRole, ParameterSchema, ParameterValues,
};
use usher_domain::broker::render::daemon_set::{SecretName, bundle};
use usher_domain::broker::render::{
    Agent, AgentImage, ApiUrl, OwnerLabels, ProviderConfig, TokenDelivery, Xr, cloud_init,
    external_secret, inject, provider_config, xr,
};
use usher_domain::object::enrolment::TokenText;
use usher_domain::object::id::{InstallationId, ProjectId, ProviderConfigId, ResourceId, TokenId};
use usher_domain::object::kv::KvCoordinates;
use usher_domain::object::manifest::Manifest;
use usher_domain::object::provider::Provider;
use usher_kernel::{Generation, Uid};
use uuid::Uuid;

const NAMESPACE: &str = "usher-project-00000000-0000-0000-0000-000000000002";

fn resource() -> ResourceId {
    ResourceId::from_uuid(Uuid::from_u128(1))
}

fn project() -> ProjectId {
    ProjectId::from_uuid(Uuid::from_u128(2))
}

fn installation() -> InstallationId {
    InstallationId::from_uuid(Uuid::from_u128(3))
}

fn token() -> TokenText {
    TokenText::compose(TokenId::from_uuid(Uuid::from_u128(4)), &[0xfb; 32])
}

fn url() -> ApiUrl {
    "https://usher.example:7420/base".parse().unwrap()
}

fn image() -> AgentImage {
    "registry.example/usher/agent:0.1.0".parse().unwrap()
}

fn composite(scope: &str) -> CompositeType {
    CompositeType::from_xrd(&json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "servers.blueprints.usher.dev" },
        "spec": {
            "scope": scope,
            "group": "blueprints.usher.dev",
            "names": { "kind": "Server", "plural": "servers" },
            "versions": [{ "name": "v1alpha1", "served": true }],
        },
    }))
    .unwrap()
}

fn parameters() -> ParameterValues {
    let schema: ParameterSchema = serde_json::from_value(json!({ "parameters": [
        { "name": "location", "type": "string", "required": true },
        { "name": "enableIpv6", "type": "boolean", "default": true },
        { "name": "crossplane", "type": "integer", "default": 3 },
    ]}))
    .unwrap();
    schema.materialise(json!({ "location": "fsn1" }).as_object().unwrap()).unwrap()
}

fn rendered(scope: &str, tags: &[(&str, &str)], seen: Option<&Uid>) -> Manifest {
    let tags: BTreeMap<String, String> =
        tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    xr(&Xr {
        resource: resource(),
        generation: Generation(2),
        labels: OwnerLabels::of_resource(resource(), installation()),
        composite: &composite(scope),
        namespace: NAMESPACE,
        anchor: &Uid::new("uid-of-anchor"),
        parameters: &parameters(),
        tags: &tags,
        seen,
    })
}

fn injected(role: MeshRole, strategy: InjectionStrategy) -> Manifest {
    let (url, image) = (url(), image());
    let agent = Agent { api_url: &url, image: &image, project: project(), resource: resource() };
    inject(rendered("Namespaced", &[], None), role, strategy, &token(), &agent)
}

fn config_of(provider: Provider, endpoint: &Value) -> (Manifest, Manifest) {
    let id = ProviderConfigId::from_uuid(Uuid::from_u128(5));
    let empty = Map::new();
    let it = ProviderConfig {
        id,
        generation: Generation(1),
        labels: OwnerLabels::of_provider_config(id, installation()),
        provider,
        namespace: NAMESPACE,
        endpoint: endpoint.as_object().unwrap_or(&empty),
        credential: &KvCoordinates::new("secret", "clouds/main").unwrap(),
        anchor: &Uid::new("uid-of-anchor"),
    };
    (provider_config(&it, None), external_secret(&it, "openbao", Some(&Uid::new("uid-seen"))))
}

fn pretty(manifest: &Manifest) -> String {
    let value: Value = serde_json::from_slice(&manifest.canonical_bytes()).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

// Requirement: R-2
#[test]
fn a_namespaced_xr_with_tags_is_applied_onto_the_uid_that_was_seen() {
    let uid = Uid::new("uid-of-xr");
    let manifest = rendered("Namespaced", &[("team", "blue"), ("cost", "7")], Some(&uid));
    assert_snapshot!(pretty(&manifest));
}

// Requirement
#[test]
fn a_cluster_xr_has_no_namespace_and_a_cluster_anchor() {
    assert_snapshot!(pretty(&rendered("Cluster", &[], None)));
}

// Requirement: R-4
#[test]
fn a_name_of_crossplanes_stays_a_parameter() {
    let manifest = rendered("Namespaced", &[], None);
    let spec = manifest.as_value()["spec"].as_object().unwrap();
    assert_eq!(spec.keys().collect::<Vec<_>>(), ["parameters"]);
    assert_eq!(spec["parameters"]["crossplane"], 3);
}

// Requirement: R-1
#[test]
fn equal_input_gives_equal_bytes() {
    let once = rendered("Namespaced", &[("b", "2"), ("a", "1")], None);
    let twice = rendered("Namespaced", &[("a", "1"), ("b", "2")], None);
    assert_eq!(once.canonical_bytes(), twice.canonical_bytes());
}

// Requirement: R-5
#[test]
fn the_token_is_written_to_exactly_one_place() {
    let sites =
        ["/spec/userData", "/spec/parameters/helmValues", "/spec/parameters/providerSecret"];
    for (index, strategy) in InjectionStrategy::ALL.into_iter().enumerate() {
        let manifest = injected(MeshRole::Node, strategy);
        for (other, site) in sites.iter().enumerate() {
            let present = manifest.as_value().pointer(site).is_some();
            assert_eq!(present, index == other, "{strategy} at {site}");
        }
        let text = String::from_utf8(manifest.canonical_bytes()).unwrap();
        assert_eq!(text.matches(token().expose()).count(), 1, "{strategy}");
    }
}

// Requirement: R-6
#[test]
fn injection_drops_no_operator_parameter() {
    let before = parameters().to_map();
    for strategy in InjectionStrategy::ALL {
        let manifest = injected(MeshRole::Node, strategy);
        let after = manifest.as_value()["spec"]["parameters"].as_object().unwrap();
        for (name, value) in &before {
            assert_eq!(after.get(name), Some(value), "{strategy}");
        }
    }
}

// Requirement: R-5
#[test]
fn helm_values_and_provider_secret_have_the_expected_content() {
    let helm = injected(MeshRole::Node, InjectionStrategy::HelmValues);
    assert_eq!(
        helm.as_value()["spec"]["parameters"]["helmValues"],
        json!({
            "bootstrapToken": token().expose(),
            "apiUrl": "https://usher.example:7420/base",
            "agentImage": "registry.example/usher/agent:0.1.0",
        })
    );
    let secret = injected(MeshRole::Node, InjectionStrategy::ProviderSecret);
    assert_eq!(
        secret.as_value()["spec"]["parameters"]["providerSecret"],
        json!({ "bootstrapToken": token().expose() })
    );
}

// Requirement: R-7
#[test]
fn a_standalone_resource_gets_no_token() {
    let untouched = rendered("Namespaced", &[], None);
    for strategy in InjectionStrategy::ALL {
        assert!(injected(MeshRole::Standalone, strategy) == untouched, "{strategy}");
    }
}

// Requirement
#[test]
fn provider_configs_name_the_secret_and_inline_the_endpoint() {
    let (namespaced, secret) = config_of(Provider::Openstack, &json!({ "authUrl": "https://k" }));
    assert_snapshot!("provider_config_openstack", pretty(&namespaced));
    assert_snapshot!("external_secret", pretty(&secret));
    let (cluster, _) = config_of(Provider::Hetzner, &json!({}));
    assert_snapshot!("provider_config_hetzner", pretty(&cluster));
}

// Requirement: R-12
#[test]
fn everything_of_a_provider_config_is_owned_by_its_anchor() {
    for provider in Provider::ALL {
        let (config, secret) = config_of(provider, &json!({}));
        let owner = &config.as_value()["metadata"]["ownerReferences"];
        assert_eq!(owner[0]["name"], "pc-00000000-0000-0000-0000-000000000005-g1");
        assert_eq!(owner[0]["uid"], "uid-of-anchor");
        assert_eq!(owner, &secret.as_value()["metadata"]["ownerReferences"], "{provider}");
        let kind = if provider == Provider::Hetzner { "ClusterAnchor" } else { "Anchor" };
        assert_eq!(owner[0]["kind"], kind, "{provider}");
        let secret_name = &config.as_value()["spec"]["credentials"]["secretRef"]["name"];
        assert_eq!(secret_name, secret.name());
        assert_eq!(secret.as_value()["spec"]["target"]["name"], *secret_name);
    }
}

// Requirement: R-8
#[test]
fn the_cloud_init_document_is_this_one() {
    let (url, image) = (url(), image());
    let agent = Agent { api_url: &url, image: &image, project: project(), resource: resource() };
    assert_snapshot!(cloud_init::document(&token(), &agent).expose());
}

// Requirement: R-9
#[test]
fn the_bundle_carries_the_token_or_names_the_secret() {
    let (url, image, token) = (url(), image(), token());
    let agent = Agent { api_url: &url, image: &image, project: project(), resource: resource() };
    let joined = |delivery| {
        let objects = bundle(&agent, "usher-system", delivery);
        objects.iter().map(pretty).collect::<Vec<_>>().join("\n---\n")
    };
    assert_snapshot!("bundle_inline", joined(TokenDelivery::Inline(&token)));
    let name: SecretName = "brought-along".parse().unwrap();
    let existing = joined(TokenDelivery::Existing(&name));
    assert!(!existing.contains(token.expose()));
    assert_snapshot!("bundle_existing", existing);
}

// Requirement: R-9
#[test]
fn a_secret_name_is_a_dns_subdomain() {
    for text in ["", "A", "a/b", "a\"b", &"a".repeat(64)] {
        let refusal = text.parse::<SecretName>().unwrap_err();
        assert_eq!(refusal.code(), "secret_name_invalid");
        assert_eq!(refusal.to_string(), format!("Secret name \"{text}\" is not a DNS subdomain"));
    }
    assert_eq!("a.b-c".parse::<SecretName>().unwrap().as_str(), "a.b-c");
}

// Requirement: R-13
#[test]
fn no_debug_shows_the_token() {
    let (url, image, token) = (url(), image(), token());
    let agent = Agent { api_url: &url, image: &image, project: project(), resource: resource() };
    let secret_part = &token.expose()[41..];
    assert_eq!(secret_part.len(), 43);
    let delivery = TokenDelivery::Inline(&token);
    let mut shown = vec![
        format!("{token:?}"),
        format!("{token:#?}"),
        format!("{agent:?}"),
        format!("{delivery:#?}"),
        format!("{:?}", cloud_init::document(&token, &agent)),
        format!("{:#?}", bundle(&agent, "usher-system", delivery)),
    ];
    for strategy in InjectionStrategy::ALL {
        shown.push(format!("{:#?}", injected(MeshRole::Node, strategy)));
    }
    for text in shown {
        assert!(!text.contains(secret_part), "{text}");
    }
}

#[derive(Deserialize)]
struct CloudConfig {
    packages: Vec<String>,
    write_files: Vec<WriteFile>,
    runcmd: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct WriteFile {
    path: String,
    owner: String,
    permissions: String,
    content: String,
}

fn any_url() -> impl Strategy<Value = ApiUrl> {
    let host = prop_oneof![
        "[a-z][a-z0-9]{0,8}(\\.[a-z][a-z0-9-]{0,8}[a-z0-9]){0,3}",
        Just("[2001:db8::1]".to_owned()),
        Just("10.1.2.3".to_owned()),
    ];
    let port = prop_oneof![Just(String::new()), (1_u16..).prop_map(|it| format!(":{it}"))];
    let secure = (host, port, "(/[A-Za-z0-9._~/-]{0,40})?")
        .prop_map(|(host, port, path)| format!("https://{host}{port}{path}"));
    let near = (1_u16.., "(/[A-Za-z0-9._~/-]{0,40})?")
        .prop_map(|(port, path)| format!("http://127.0.0.1:{port}{path}"));
    prop_oneof![secure, near].prop_map(|it| it.parse().unwrap())
}

fn any_image() -> impl Strategy<Value = AgentImage> {
    let registry = "([a-z0-9]{1,8}(:[1-9][0-9]{0,3})?/){0,1}";
    let repository = "[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?";
    let tag = "[A-Za-z0-9_][A-Za-z0-9._-]{0,16}";
    (registry, repository, tag)
        .prop_map(|(registry, repository, tag)| format!("{registry}{repository}:{tag}"))
        .prop_map(|it| it.parse().unwrap())
}

proptest! {
    // Requirement: R-8
    #[test]
    fn every_cloud_init_document_is_read_back_by_a_foreign_parser(
        id in 1_u128.., secret in any::<[u8; 32]>(), url in any_url(), image in any_image(),
        project in 1_u128..,
    ) {
        let token = TokenText::compose(TokenId::from_uuid(Uuid::from_u128(id)), &secret);
        let project = ProjectId::from_uuid(Uuid::from_u128(project));
        let agent = Agent { api_url: &url, image: &image, project, resource: resource() };
        let document = cloud_init::document(&token, &agent);
        let text = document.expose();
        prop_assert!(text.starts_with("#cloud-config\n"));
        prop_assert!(text.is_ascii() && text.len() < 16 * 1024);
        let read: CloudConfig = serde_saphyr::from_str(text).unwrap();
        prop_assert_eq!(read.packages, ["podman"]);
        let [token_file, config_file, unit_file] = read.write_files.as_slice() else {
            return Err(TestCaseError::fail("three files"));
        };
        prop_assert_eq!(&token_file.path, "/etc/usher/bootstrap-token");
        prop_assert_eq!(&token_file.permissions, "0600");
        prop_assert_eq!(&token_file.owner, "root:root");
        prop_assert_eq!(&token_file.content, token.expose());
        prop_assert_eq!(&config_file.path, "/etc/usher/agent.json");
        prop_assert_eq!(&config_file.permissions, "0600");
        let config: Value = serde_json::from_str(&config_file.content).unwrap();
        prop_assert_eq!(config, json!({
            "api_url": url.as_str(),
            "project_id": project.to_string(),
            "resource_id": resource().to_string(),
            "token_file": "/etc/usher/bootstrap-token",
        }));
        prop_assert_eq!(&unit_file.permissions, "0644");
        let run = format!(" {image} agent --config /etc/usher/agent.json\n");
        prop_assert!(unit_file.content.contains(&run));
        prop_assert_eq!(read.runcmd, [
            vec!["systemctl", "daemon-reload"],
            vec!["systemctl", "enable", "--now", "usher-agent.service"],
        ]);
    }

    #[test]
    fn garbage_is_no_secret_name(text in any::<String>()) {
        if let Ok(name) = text.parse::<SecretName>() {
            prop_assert_eq!(name.as_str(), text.as_str());
        }
    }
}
