//! `ValidatingAdmissionPolicy`: rules in CEL, in force by their bindings.
//!
//! A variable is evaluated once per binding and parameter. One that fails counts only for the
//! expressions that use it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{self, Context, Program, to_value};
use serde_json::{Value, json};

use super::{Reviewed, matching};
use crate::core::{POLICIES, text};
use crate::kinds::{Builtin, group_version};
use crate::selector::LabelSelector;
use crate::status::Refusal;
use crate::verbs::RequestContext;
use crate::view;

/// The length of a message that an expression makes.
const MESSAGE_MAX: usize = 5 * 1024;

/// A validation that did not hold, or could not be evaluated.
struct Failure {
    reason: String,
    message: String,
}

/// A policy and the binding that puts it in force.
struct Bound<'a> {
    policy: &'a Value,
    binding: &'a Value,
}

/// What the policies of a write have found.
#[derive(Default)]
struct Findings {
    denied: Option<Failure>,
    warnings: Vec<String>,
}

/// Evaluates every matching policy; returns the warnings.
pub(super) fn review(
    ctx: &RequestContext<'_>,
    reviewed: &Reviewed<'_>,
    (bindings, request): (&[Cow<'_, Value>], &Value),
) -> Result<Vec<String>, Refusal> {
    let mut findings = Findings::default();
    let policies = ctx.core.store.list(POLICIES, "");
    for policy in policies.objects.values().map(|entry| entry.value()) {
        let policy = &*policy;
        let constraints = &policy["spec"]["matchConstraints"];
        let name = text(policy, "/metadata/name");
        let own: Vec<&Value> = bindings
            .iter()
            .map(|it| &**it)
            .filter(|it| text(it, "/spec/policyName") == name)
            .collect();
        if own.is_empty() || !matching::constrained(ctx, reviewed, constraints) {
            continue;
        }
        for binding in own {
            let limits = &binding["spec"]["matchResources"];
            if limits.is_null() || matching::constrained(ctx, reviewed, limits) {
                let bound = Bound { policy, binding };
                bound.review(ctx, (reviewed, request), &mut findings);
            }
        }
    }
    match findings.denied {
        None => Ok(findings.warnings),
        Some(failure) => {
            let mut refusal = denial(ctx, reviewed, &failure);
            refusal.warnings.extend(findings.warnings);
            Err(refusal)
        }
    }
}

fn denial(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>, failure: &Failure) -> Refusal {
    let name = reviewed.object.map_or(ctx.name, |object| text(object, "/metadata/name"));
    let mut refusal = Refusal::forbidden(ctx.resource, name, &failure.message);
    (refusal.code, refusal.reason) = match failure.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    if let Some(details) = refusal.details.as_mut() {
        details["causes"] = json!([{"message": failure.message}]);
    }
    refusal
}

impl Bound<'_> {
    fn review(
        &self,
        ctx: &RequestContext<'_>,
        (reviewed, request): (&Reviewed<'_>, &Value),
        findings: &mut Findings,
    ) {
        let ignores = text(self.policy, "/spec/failurePolicy") == "Ignore";
        let params = match self.params(ctx) {
            Ok(params) => params,
            Err(_) if ignores => return,
            Err(why) => {
                let why = format!("failed to configure binding: {why}");
                self.deny(findings, Failure { reason: String::new(), message: why });
                return;
            }
        };
        for param in &params {
            let failures = match Evaluation::new(ctx, (reviewed, request), param) {
                Ok(evaluation) => evaluation.failures(&self.policy["spec"], ignores),
                Err(_) if ignores => Vec::new(),
                Err(message) => vec![Failure { reason: String::new(), message }],
            };
            for failure in failures {
                self.act(ctx, failure, findings);
            }
        }
    }

    /// The parameters, or null without any; one object fails for each that it does not fit.
    fn params(&self, ctx: &RequestContext<'_>) -> Result<Vec<Value>, String> {
        let kind = text(self.policy, "/spec/paramKind/kind");
        let reference = &self.binding["spec"]["paramRef"];
        if kind.is_empty() || reference.is_null() {
            return Ok(vec![Value::Null]);
        }
        let (group, version) = group_version(text(self.policy, "/spec/paramKind/apiVersion"));
        let kinds = ctx.core.registry.kinds();
        let Some(resource) = kinds.of_kind(group, version, kind) else {
            return Err(format!("failed to find resource referenced by paramKind: {kind}"));
        };
        let given = text(reference, "/namespace");
        let namespace = match (resource.namespaced, given) {
            (true, "") if !ctx.resource.namespaced => {
                return Err("cannot use namespaced paramRef in policy binding that matches \
                            cluster-scoped resources"
                    .to_owned());
            }
            (true, "") => ctx.namespace,
            (true, given) => given,
            (false, _) => "",
        };
        let shown = |value: &Value| view::to_version(resource, value).into_owned();
        let found: Vec<Value> = match text(reference, "/name") {
            "" => {
                let selector = LabelSelector::from_structured(&reference["selector"])
                    .map_err(|_| "the selector of paramRef is invalid".to_owned())?;
                let all = ctx.core.store.list(&resource.table, &resource.prefix(namespace));
                let labels = |value: &Value| {
                    value.pointer("/metadata/labels").and_then(Value::as_object).cloned()
                };
                let entries = all.objects.values();
                let fits = entries.filter(|it| selector.matches(labels(&it.head()).as_ref()));
                fits.map(|entry| shown(&entry.value())).collect()
            }
            name => {
                let key = resource.key(namespace, name);
                let entry = ctx.core.store.get(&resource.table, &key);
                entry.iter().map(|entry| shown(&entry.value())).collect()
            }
        };
        if found.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }

    /// Does what the binding says with a failure.
    fn act(&self, ctx: &RequestContext<'_>, failure: Failure, findings: &mut Findings) {
        let actions = self.binding["spec"]["validationActions"].as_array().into_iter().flatten();
        let actions: Vec<&str> = actions.filter_map(Value::as_str).collect();
        let (policy, binding) = self.names();
        if actions.contains(&"Warn") {
            let message = &failure.message;
            findings.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding \
                 '{binding}': {message}"
            ));
        }
        if let Some(audit) = ctx.core.audit.as_ref().filter(|_| actions.contains(&"Audit")) {
            let line = json!({
                "user": ctx.user.name,
                "resource": ctx.resource.qualified(),
                "namespace": ctx.namespace,
                "name": ctx.name,
                "policy": policy,
                "binding": binding,
                "message": failure.message,
            });
            audit(&line.to_string());
        }
        if actions.contains(&"Deny") {
            self.deny(findings, failure);
        }
    }

    /// The first denial counts.
    fn deny(&self, findings: &mut Findings, failure: Failure) {
        let (policy, binding) = self.names();
        let Failure { reason, message } = failure;
        findings.denied.get_or_insert_with(|| Failure {
            reason,
            message: format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: \
                 {message}"
            ),
        });
    }

    fn names(&self) -> (&str, &str) {
        (text(self.policy, "/metadata/name"), text(self.binding, "/metadata/name"))
    }
}

/// The expressions of a policy over one write and one parameter.
struct Evaluation {
    context: Context<'static>,
    variables: HashMap<Key, cel::Value>,
    /// The names of variables that failed, and why.
    failed: Vec<(String, String)>,
}

impl Evaluation {
    fn new(
        ctx: &RequestContext<'_>,
        (reviewed, request): (&Reviewed<'_>, &Value),
        param: &Value,
    ) -> Result<Self, String> {
        let mut context = Context::default();
        context.register_all();
        let shown = |value: Option<&Value>| {
            value.map_or(Value::Null, |it| view::to_version(ctx.resource, it).into_owned())
        };
        let of_cluster = !ctx.resource.namespaced || ctx.resource.is_builtin(Builtin::Namespace);
        let namespace = ctx.core.namespace(ctx.namespace).filter(|_| !of_cluster);
        let mut asked = request.clone();
        if let Some(asked) = asked.as_object_mut() {
            asked.retain(|key, _| !["uid", "object", "oldObject"].contains(&key.as_str()));
        }
        let given = [
            ("object", shown(reviewed.object)),
            ("oldObject", shown(reviewed.old)),
            ("request", asked),
            ("params", param.clone()),
            ("namespaceObject", namespace.map_or(Value::Null, |entry| entry.value().into_owned())),
        ];
        for (name, value) in given {
            let value = to_value(&value).map_err(|error| error.to_string())?;
            context.add_variable_from_value(name, value);
        }
        Ok(Self { context, variables: HashMap::new(), failed: Vec::new() })
    }

    /// What does not hold; nothing if a match condition does not.
    fn failures(mut self, spec: &Value, ignores: bool) -> Vec<Failure> {
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let mut refused = None;
        for condition in list("matchConditions") {
            match self.holds(text(condition, "/expression")) {
                Ok(true) => {}
                Ok(false) => return Vec::new(),
                Err(why) => {
                    let name = text(condition, "/name");
                    refused.get_or_insert(format!("match condition \"{name}\" failed: {why}"));
                }
            }
        }
        if let Some(message) = refused {
            let failure = Failure { reason: String::new(), message };
            return if ignores { Vec::new() } else { vec![failure] };
        }
        for variable in list("variables") {
            self.define(text(variable, "/name"), text(variable, "/expression"));
        }
        let judged = list("validations").map(|it| self.judge(it, ignores));
        judged.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn define(&mut self, name: &str, expression: &str) {
        match self.evaluate(expression) {
            Ok(value) => {
                self.variables.insert(Key::String(Arc::new(name.to_owned())), value);
            }
            Err(why) => self.failed.push((name.to_owned(), why)),
        }
        let map = Map { map: Arc::new(self.variables.clone()) };
        self.context.add_variable_from_value("variables", cel::Value::Map(map));
    }

    fn judge(&self, validation: &Value, ignores: bool) -> Option<Failure> {
        let expression = text(validation, "/expression").trim();
        let (reason, message) = match self.holds(expression) {
            Ok(true) => return None,
            Err(_) if ignores => return None,
            Err(why) => {
                (String::new(), format!("expression '{expression}' resulted in error: {why}"))
            }
            Ok(false) => {
                (text(validation, "/reason").to_owned(), self.message(validation, expression))
            }
        };
        Some(Failure { reason, message })
    }

    /// The message of the policy, or one that quotes the expression.
    fn message(&self, validation: &Value, expression: &str) -> String {
        let made = Some(text(validation, "/messageExpression")).filter(|it| !it.is_empty());
        if let Some(Ok(cel::Value::String(made))) = made.map(|it| self.evaluate(it)) {
            let made = made.trim();
            if !made.is_empty() && made.len() <= MESSAGE_MAX && !made.contains('\n') {
                return made.to_owned();
            }
        }
        match text(validation, "/message").trim() {
            "" => format!("failed expression: {expression}"),
            given => given.to_owned(),
        }
    }

    fn holds(&self, expression: &str) -> Result<bool, String> {
        let cel::Value::Bool(holds) = self.evaluate(expression)? else {
            return Err("not a truth value".to_owned());
        };
        Ok(holds)
    }

    fn evaluate(&self, expression: &str) -> Result<cel::Value, String> {
        let program = Program::compile(expression).map_err(|error| error.to_string())?;
        program.execute(&self.context).map_err(|error| {
            let used = |name: &str| expression.contains(&format!("variables.{name}"));
            let failed = self.failed.iter().find(|(name, _)| used(name));
            failed.map_or_else(
                || error.to_string(),
                |(name, why)| format!("composited variable \"{name}\" fails to evaluate: {why}"),
            )
        })
    }
}
