//! The address of a webhook that is given by its service.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::core::{Core, text};

const SERVICES: &str = "services";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The label of a slice with the name of its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const DEFAULT_PORT: u64 = 443;

/// A service and how it is reached.
pub(super) struct Target {
    /// What its certificate must name.
    pub(super) host: String,
    /// The port of the service, for messages.
    pub(super) port: u64,
    pub(super) path: String,
    /// The address of a ready endpoint.
    pub(super) address: SocketAddr,
}

/// Resolves `clientConfig.service` by the slices or the endpoints of the service.
pub(super) fn resolve(core: &Core, reference: &Value) -> Result<Target, String> {
    let (name, namespace) = (text(reference, "/name"), text(reference, "/namespace"));
    let port = reference["port"].as_u64().unwrap_or(DEFAULT_PORT);
    let service = core.store.get(SERVICES, &format!("{namespace}/{name}"));
    let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?;
    let service = service.value();
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let found = ports.into_iter().flatten().find(|it| it["port"].as_u64() == Some(port));
    let found =
        found.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let address = address(core, (namespace, name), found);
    let address =
        address.ok_or_else(|| format!("no endpoints available for service \"{name}\""))?;
    let path = text(reference, "/path").trim_start_matches('/').to_owned();
    Ok(Target { host: format!("{name}.{namespace}.svc"), port, path, address })
}

/// The first ready endpoint of a port of a service.
fn address(core: &Core, (namespace, name): (&str, &str), port: &Value) -> Option<SocketAddr> {
    let slices = core.store.list(SLICES, &format!("{namespace}/")).objects;
    let own = slices
        .values()
        .map(|entry| entry.value())
        .filter(|slice| slice["metadata"]["labels"][SERVICE_NAME].as_str() == Some(name));
    let mut of_slices = own.filter_map(|slice| {
        let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.find(|it| it["conditions"]["ready"].as_bool() != Some(false))?;
        socket(&ready["addresses"][0], &slice["ports"], port)
    });
    of_slices.next().or_else(|| {
        let endpoints = core.store.get(ENDPOINTS, &format!("{namespace}/{name}"))?;
        let endpoints = endpoints.value();
        let mut subsets = endpoints["subsets"].as_array().into_iter().flatten();
        subsets.find_map(|it| socket(&it["addresses"][0]["ip"], &it["ports"], port))
    })
}

/// The address with the endpoint port that has the name of the service port.
fn socket(address: &Value, ports: &Value, port: &Value) -> Option<SocketAddr> {
    let name = text(port, "/name");
    let mut ports = ports.as_array().into_iter().flatten();
    let number = ports.find(|it| text(it, "/name") == name)?["port"].as_u64()?;
    let address: IpAddr = address.as_str()?.parse().ok()?;
    Some(SocketAddr::new(address, u16::try_from(number).ok()?))
}
