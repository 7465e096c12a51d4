//! The inventory of clouds: their providers and endpoints, never their credentials.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::object::id::CloudId;
use crate::object::provider::Provider;
use crate::object::slug::Slug;

/// An account or site where things can be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cloud {
    pub id: CloudId,
    /// What it is called.
    pub name: Slug,
    pub provider: Provider,
    /// Where it answers: regions, URLs, projects. No secrets.
    pub endpoint: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_read_back_as_it_was_written() {
        let text = r#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"eu",
            "provider":"hetzner","endpoint":{"region":"fsn1"}}"#;
        let cloud: Cloud = serde_json::from_str(text).unwrap();
        assert_eq!((cloud.name.as_str(), cloud.provider), ("eu", Provider::Hetzner));
        let again = serde_json::to_value(&cloud).unwrap();
        assert_eq!(serde_json::from_value::<Cloud>(again).unwrap(), cloud);
        assert!(serde_json::from_str::<Cloud>(&text.replace("fsn1\"}", "\"")).is_err());
    }
}
