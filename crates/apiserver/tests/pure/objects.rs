//! A objects of custom resources without a server: just enough to feed recorded requests to the
//! parts under test.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use usher_apiserver::apply::managed::restore_times;
use usher_apiserver::apply::{Request, Reset, View, apply, update};
use usher_apiserver::meta::field::{FieldError, Path, joined};
use usher_apiserver::meta::name::NameRule;
use usher_apiserver::meta::object::{self, MetaRules};
use usher_apiserver::patch::{self, json as json_patch, merge};
use usher_apiserver::schema::decode::decode;
use usher_apiserver::schema::default::fill;
use usher_apiserver::schema::{Schema, metadata::normalize};

pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

/// A kind that the fixtures define.
pub(crate) struct Kind {
    pub name: String,
    pub schema: Schema,
    pub view: View,
    pub status: bool,
}

/// The compared parts of a response.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub status: u64,
    pub warnings: Vec<String>,
    pub body: Value,
}

/// A parsed request.
pub(crate) struct ParsedRequest<'a> {
    pub kind: &'a Kind,
    pub key: String,
    pub namespace: String,
    pub subresource: &'a str,
    pub query: BTreeMap<String, String>,
    pub media: &'a str,
    pub body: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Objects {
    objects: BTreeMap<String, Value>,
}

type Outcome = Result<(u64, Vec<String>, Value), Answer>;

impl Objects {
    pub(crate) fn get(&self, key: &str) -> Answer {
        match self.objects.get(key) {
            Some(object) => answer(200, object.clone()),
            None => failure(404, "not found"),
        }
    }

    pub(crate) fn delete(&mut self, key: &str) -> Option<Answer> {
        let object = self.objects.get_mut(key)?;
        object["metadata"]["deletionTimestamp"] = json!(NOW);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        Some(answer(200, object.clone()))
    }

    pub(crate) fn create(&mut self, request: &ParsedRequest<'_>) -> Answer {
        let outcome = Self::try_create(request);
        self.conclude(request, outcome)
    }

    pub(crate) fn patch(&mut self, request: &ParsedRequest<'_>) -> Answer {
        let outcome = if request.media.contains("apply-patch") {
            self.try_apply(request)
        } else {
            self.try_patch(request)
        };
        self.conclude(request, outcome)
    }

    fn conclude(&mut self, request: &ParsedRequest<'_>, outcome: Outcome) -> Answer {
        match outcome {
            Err(refused) => refused,
            Ok((status, warnings, object)) => {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let plural = request.key.split('/').next().unwrap();
                let key = format!("{plural}/{name}");
                let gone = object["metadata"].get("deletionTimestamp").is_some()
                    && object["metadata"].get("finalizers").is_none();
                if gone {
                    self.objects.remove(&key);
                } else {
                    self.objects.insert(key, object.clone());
                }
                Answer { status, warnings, body: object }
            }
        }
    }

    fn try_create(request: &ParsedRequest<'_>) -> Outcome {
        let decoded = decode(&request.body).unwrap();
        let mut object = decoded.value;
        let mut warnings = request.shape(&mut object, &decoded.duplicates)?;
        if request.kind.status {
            object.as_object_mut().unwrap().remove("status");
        }
        object["metadata"]["namespace"] = json!(request.namespace);
        let doubled = object::deduplicate_owners(&mut object["metadata"]);
        if !doubled.is_empty() {
            warnings.push(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner \
                 references in 1.20+, and may reject such requests as early as 1.24; please fix \
                 your requests; duplicate UID(s) observed: {}",
                doubled.join(", ")
            ));
        }
        request.check(&object, None, &warnings)?;
        warnings.extend(object::finalizer_warnings(
            &object["metadata"],
            &Value::Null,
            &Path::new("metadata"),
        ));
        object["metadata"]["uid"] = json!("<uid>");
        object["metadata"]["generation"] = json!(1);
        let managed = update(&request.kind.view, &json!({}), &object, request.request());
        managed.write(&mut object);
        Ok((201, warnings, object))
    }

    fn try_patch(&self, request: &ParsedRequest<'_>) -> Outcome {
        let live = self.objects.get(&request.key).ok_or_else(|| failure(404, "not found"))?;
        let refused = |refusal: patch::Refusal| match refusal {
            patch::Refusal::Undecodable(_) => failure(400, &refusal.to_string()),
            patch::Refusal::TooMany { .. } => {
                failure(413, &format!("Request entity too large: {refusal}"))
            }
            patch::Refusal::Contradictory(why) => failure(500, &why),
            patch::Refusal::DoesNotApply(_) => {
                failure(422, "the server rejected our request due to an error in our request")
            }
        };
        let mut object = if request.media.contains("json-patch") {
            let operations = json_patch::parse(&request.body).map_err(refused)?;
            json_patch::apply(live, &operations).map_err(refused)?
        } else {
            let mut object = live.clone();
            merge::apply(&mut object, &merge::parse(&request.body).map_err(refused)?);
            object
        };
        let warnings = request.shape(&mut object, &[])?;
        request.keep(&mut object, live);
        request.check(&object, Some(live), &warnings)?;
        let managed = update(&request.kind.view, live, &object, request.request());
        managed.write(&mut object);
        Ok((200, warnings, request.generation(object, live)))
    }

    fn try_apply(&self, request: &ParsedRequest<'_>) -> Outcome {
        use usher_apiserver::apply::Refusal;
        let config: Value = serde_json::from_slice(&request.body).unwrap();
        let live = self.objects.get(&request.key);
        if live.is_none() && !request.subresource.is_empty() {
            return Err(failure(404, "not found"));
        }
        let force = request.query.get("force").is_some_and(|force| force == "true");
        let empty = json!({"metadata": {}});
        let applied =
            apply(&request.kind.view, live.unwrap_or(&empty), &config, request.request(), force);
        let mut object = match applied {
            Ok(applied) => applied.object,
            Err(refusal @ Refusal::Managers) => return Err(failure(400, &refusal.to_string())),
            Err(refusal @ Refusal::Untyped(..)) => return Err(failure(500, &refusal.to_string())),
            Err(Refusal::Conflicts(conflicts)) => {
                let causes: Vec<Value> = conflicts
                    .iter()
                    .map(|conflict| {
                        json!({"reason": "FieldManagerConflict", "message": conflict.message(),
                            "field": conflict.field})
                    })
                    .collect();
                let message = Refusal::Conflicts(conflicts).to_string();
                return Err(with_causes(409, &message, &causes));
            }
        };
        let Some(live) = live else {
            object["metadata"]["namespace"] = json!(request.namespace);
            object["metadata"]["uid"] = json!("<uid>");
            object["metadata"]["generation"] = json!(1);
            fill(&mut object, &request.kind.schema);
            request.check(&object, None, &[])?;
            return Ok((201, Vec::new(), object));
        };
        // A null left by an apply is refused, not dropped as in a body.
        fill(&mut object, &request.kind.schema);
        request.check(&object, Some(live), &[])?;
        restore_times(&mut object, live);
        Ok((200, Vec::new(), request.generation(object, live)))
    }
}

impl ParsedRequest<'_> {
    fn request(&self) -> Request<'_> {
        let reset = match (self.kind.status, self.subresource) {
            (_, "status") => Reset::AllButStatus,
            (true, _) => Reset::Status,
            (false, _) => Reset::Nothing,
        };
        Request {
            manager: self.query.get("fieldManager").map_or("corpus", String::as_str),
            api_version: "corpus.example/v1",
            subresource: self.subresource,
            now: NOW,
            reset,
        }
    }

    fn shape(&self, object: &mut Value, duplicates: &[String]) -> Result<Vec<String>, Answer> {
        let handled = format!("{0} in version \"v1\" cannot be handled as a {0}", self.kind.name);
        let unknown = normalize(object, &self.kind.schema)
            .map_err(|why| failure(400, &format!("{handled}: {why}")))?;
        let mut warnings: Vec<String> =
            duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        warnings.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        match self.query.get("fieldValidation").map(String::as_str) {
            Some("Ignore") => Ok(Vec::new()),
            Some("Strict") if !warnings.is_empty() => {
                let all = warnings.join(", ");
                Err(failure(400, &format!("{handled}: strict decoding error: {all}")))
            }
            _ => Ok(warnings),
        }
    }

    fn keep(&self, object: &mut Value, live: &Value) {
        let live_status = live.get("status").cloned();
        if self.subresource == "status" {
            let status = object.get("status").cloned();
            *object = live.clone();
            put(object, status);
        } else if self.kind.status {
            put(object, live_status);
        }
    }

    fn generation(&self, mut object: Value, live: &Value) -> Value {
        let body = |object: &Value| {
            let mut body = object.clone();
            let fields = body.as_object_mut().unwrap();
            fields.remove("metadata");
            if self.kind.status {
                fields.remove("status");
            }
            body
        };
        let generation = live["metadata"]["generation"].as_i64().unwrap();
        let changed = i64::from(body(&object) != body(live));
        object["metadata"]["generation"] = json!(generation + changed);
        object
    }

    fn check(
        &self,
        object: &Value,
        old: Option<&Value>,
        warnings: &[String],
    ) -> Result<(), Answer> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let rules = MetaRules { namespaced: true, names: NameRule::Subdomain };
        let at = Path::new("metadata");
        let mut errors = Vec::new();
        if kind != self.kind.name {
            let detail = format!("must be {}", self.kind.name);
            errors.push(FieldError::invalid_text(&Path::new("kind"), kind, detail));
        }
        errors.extend(object::validate(&object["metadata"], rules, &at));
        // The registry and the kind both validate a change, as in Kubernetes.
        for old in [old, old].into_iter().flatten() {
            let (new, old) = (&object["metadata"], &old["metadata"]);
            errors.extend(object::validate_update(new, old, &at));
        }
        errors.extend(self.kind.schema.validate(object, old));
        if errors.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let message = format!("{kind}.corpus.example \"{name}\" is invalid: {}", joined(&errors));
        let refused = with_causes(422, &message, &causes(&errors));
        Err(Answer { warnings: warnings.to_vec(), ..refused })
    }
}

pub(crate) fn causes(errors: &[FieldError]) -> Vec<Value> {
    errors
        .iter()
        .map(|error| {
            json!({"reason": error.cause.reason(), "message": error.sentence(),
                "field": error.field})
        })
        .collect()
}

pub(crate) fn with_causes(status: u64, message: &str, causes: &[Value]) -> Answer {
    answer(status, json!({"message": message, "causes": causes}))
}

fn failure(status: u64, message: &str) -> Answer {
    with_causes(status, message, &[])
}

fn answer(status: u64, body: Value) -> Answer {
    Answer { status, warnings: Vec::new(), body }
}

fn put(object: &mut Value, status: Option<Value>) {
    let fields = object.as_object_mut().unwrap();
    match status {
        Some(status) => fields.insert("status".to_owned(), status),
        None => fields.remove("status"),
    };
}
