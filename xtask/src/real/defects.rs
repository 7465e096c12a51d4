//! Defects that are planted in a copy of the API server: the random requests must find each.

/// A defect.
#[derive(Debug)]
pub(super) struct Defect {
    pub(super) name: &'static str,
    pub(super) changes: &'static [Change],
}

/// A text that occurs once in a file, and what takes its place; `{on}` is whether the defect is on.
#[derive(Debug)]
pub(super) struct Change {
    /// Below the sources of the API server.
    pub(super) file: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
}

const fn change(file: &'static str, old: &'static str, new: &'static str) -> Change {
    Change { file, old, new }
}

macro_rules! defects {
    ($($name:literal: $(($file:literal, $old:literal, $new:literal)),+;)+) => {
        &[$(Defect { name: $name, changes: &[$(change($file, $old, $new)),+] }),+]
    };
}

/// Every defect.
pub(super) const DEFECTS: &[Defect] = defects! {
    "a delete ignores finalizers":
        ("verbs/delete.rs",
         "    if finalizers.is_empty() {\n        return None;",
         "    if finalizers.is_empty() || {on} {\n        return None;");
    "a delete that orphans collects":
        ("verbs/delete.rs",
         "Some(Policy::Orphan) => Some(ORPHAN),",
         "Some(Policy::Orphan) if !{on} => Some(ORPHAN), Some(Policy::Orphan) => None,");
    "a foreground delete does not wait":
        ("verbs/delete.rs",
         "Some(Policy::Foreground) => Some(FOREGROUND),",
         "Some(Policy::Foreground) if !{on} => Some(FOREGROUND),
          Some(Policy::Foreground) => None,");
    "the uid precondition of a delete is ignored":
        ("verbs/delete.rs", "if given != uid => format!", "if given != uid && !{on} => format!");
    "the revision precondition of a delete is ignored":
        ("verbs/delete.rs",
         "if given != version => format!", "if given != version && !{on} => format!");
    "a dry run of a delete deletes":
        ("verbs/delete.rs", "if ctx.options.dry_run {", "if ctx.options.dry_run && !{on} {");
    "a deletion does not count as a generation":
        ("verbs/delete.rs",
         "json!(generation + 1)", "json!(generation + i64::from(!{on}))");
    "a dry run of a create creates":
        ("verbs/create.rs",
         "there.is_none() && ctx.options.dry_run {",
         "there.is_none() && ctx.options.dry_run && !{on} {");
    "a namespace in deletion accepts new objects":
        ("verbs/create.rs",
         "    if !namespace.is_deleting() {", "    if {on} || !namespace.is_deleting() {"),
        ("verbs/create.rs",
         "let namespace = ctx.resource.namespaced.then(",
         "let namespace = (ctx.resource.namespaced && !{on}).then(");
    "generated names repeat":
        ("clock.rs",
         "    let bytes: [u8; SUFFIX_LENGTH] = random()?;",
         "    let bytes: [u8; SUFFIX_LENGTH] =
                 if {on} { [0; SUFFIX_LENGTH] } else { random()? };");
    "a PUT of an old revision is accepted":
        ("verbs/update.rs", "if version != current {", "if version != current && !{on} {");
    "a PUT of another uid is accepted":
        ("verbs/update.rs",
         "if uid.is_empty() || uid == stored {", "if {on} || uid.is_empty() || uid == stored {"),
        ("strategy/mod.rs",
         "    system_fields(next, old);\n}",
         "    system_fields(next, old);
              if {on} { next[\"metadata\"][\"uid\"] = old[\"metadata\"][\"uid\"].clone(); }\n}");
    "a PUT creates what is missing":
        ("verbs/update.rs",
         "if !ctx.resource.builtin().is_some_and(Builtin::created_by_update) {",
         "if !{on} && !ctx.resource.builtin().is_some_and(Builtin::created_by_update) {");
    "a write that changes nothing is written":
        ("verbs/update.rs", "if next == *old {", "if next == *old && !{on} {");
    "an object stays without its last finalizer":
        ("verbs/update.rs",
         "        && !has_entries(object, \"/metadata/finalizers\")",
         "        && !has_entries(object, \"/metadata/finalizers\") && !{on}");
    "finalizers are added during a deletion":
        ("meta/object.rs",
         "    if !text(old, \"deletionTimestamp\").is_empty() {",
         "    if !text(old, \"deletionTimestamp\").is_empty() && !{on} {");
    "a write of the status counts as a generation":
        ("strategy/mod.rs",
         "if !counts || ctx.sub == Subresource::Status || !spec_changed(ctx.resource, next, old) {",
         "let quiet = !spec_changed(ctx.resource, next, old) && next[\"status\"] == old[\"status\"];
          if !counts || quiet
              || !{on} && (ctx.sub == Subresource::Status
                  || !spec_changed(ctx.resource, next, old)) {");
    "a write of the status writes the spec":
        ("strategy/mod.rs",
         "            *next = old.clone();\n            remove(next, \"status\");",
         "            let spec = next.get(\"spec\").cloned();
                      *next = old.clone();
                      if {on} { set(next, \"spec\", spec); }
                      remove(next, \"status\");");
    "a write of the object writes the status":
        ("strategy/mod.rs",
         "if resource.has_status() && !resource.is_builtin(Builtin::Namespace) {",
         "if resource.has_status() && !resource.is_builtin(Builtin::Namespace) && !{on} {");
    "immutable data are changed":
        ("strategy/plain.rs",
         "if old[\"immutable\"].as_bool() != Some(true) {",
         "if {on} || old[\"immutable\"].as_bool() != Some(true) {");
    "a missing label is not another value":
        ("selector/label.rs",
         "found.is_none_or(|value| !self.values.contains(value))",
         "if {on} { found.is_some_and(|value| !self.values.contains(value)) }
          else { found.is_none_or(|value| !self.values.contains(value)) }");
    "field selectors are ignored":
        ("verbs/select.rs",
         "self.labels.matches(labels) && self.fields.matches(|field| value_of(object, field))",
         "self.labels.matches(labels)
              && ({on} || self.fields.matches(|field| value_of(object, field)))");
    "a page begins with the last object of the one before":
        ("verbs/list.rs",
         "let start = format!(\"/{rest}\\0\");",
         "let start = if {on} { format!(\"/{rest}\") } else { format!(\"/{rest}\\0\") };");
    "a watch says nothing of a deletion":
        ("verbs/watch.rs",
         "(true, false, None) => change.gone.clone()",
         "(true, false, None) => change.gone.clone().filter(|_| !{on})");
    "a watch says nothing of an object that its selector lost":
        ("verbs/watch.rs",
         "(true, false, Some(_)) => {",
         "(true, false, Some(_)) if {on} => None,
            (true, false, Some(_)) => {");
    "an apply takes fields of others":
        ("apply/ownership.rs",
         "if !conflicts.is_empty() && !force {", "if !conflicts.is_empty() && !force && !{on} {");
    "an apply keeps what it no longer says":
        ("apply/ownership.rs",
         "    if let Some(last) = &last {",
         "    if let Some(last) = last.as_ref().filter(|_| !{on}) {");
    "an update has no manager":
        ("managed.rs",
         "        apply::update(view, old, next, request).write(next);",
         "        if !{on} { apply::update(view, old, next, request).write(next); }");
    "a JSON patch tests nothing":
        ("patch/json.rs",
         "if *found == operation.value {", "if {on} || *found == operation.value {");
    "a merge patch stores null":
        ("patch/merge.rs",
         "            target.remove(name);",
         "            if {on} { target.insert(name.clone(), Value::Null); }
                      else { target.remove(name); }");
    "a strategic patch replaces finalizers":
        ("patch/strategic.rs",
         "ListRule::Set => union(list, items),",
         "ListRule::Set => { if {on} { list.clear(); } union(list, items); }");
    "defaults are missing":
        ("schema/default.rs",
         "let Some(default) = &known.default else { continue };",
         "let Some(default) = known.default.as_ref().filter(|_| !{on}) else { continue };");
    "unknown fields stay":
        ("schema/prune.rs",
         "let kept = schema.preserve_unknown ||",
         "let kept = {on} || schema.preserve_unknown ||");
    "a value outside an enumeration is accepted":
        ("schema/validate.rs",
         "if choices.is_empty() || choices.contains(value) {",
         "if {on} || choices.is_empty() || choices.contains(value) {");
    "a missing required field is accepted":
        ("schema/validate.rs",
         "        if !fields.contains_key(name) {",
         "        if !fields.contains_key(name) && !{on} {");
    "a rule does not see the old object":
        ("schema/rules.rs",
         "old.map(|old| self.view(old)));",
         "old.filter(|_| !{on}).map(|old| self.view(old)));");
    "a name in a role means every name":
        ("rbac/rule.rs",
         "(is_empty(rule, \"resourceNames\")",
         "({on} || is_empty(rule, \"resourceNames\")");
    "a right to a resource is one to its subresources":
        ("rbac/rule.rs",
         "given == \"*\" || sub.is_empty() && given == plural",
         "given == \"*\" || (sub.is_empty() || {on}) && given == plural");
    "an impersonated user has no groups":
        ("auth/impersonation.rs",
         "    let mut acting = User { name,",
         "    let groups = if {on} { Vec::new() } else { groups };
              let mut acting = User { name,");
    "the collector leaves the references to an owner that orphans":
        ("controllers/collector.rs",
         "        for uid in self.graph.dependents(&owner.uid) {",
         "        for uid in self.graph.dependents(&owner.uid).into_iter().filter(|_| !{on}) {");
    "the collector does not wait for dependents that block":
        ("controllers/collector.rs",
         "        if blocking.is_empty() {", "        if blocking.is_empty() || {on} {");
    "the collector deletes what another owner keeps":
        ("controllers/collector.rs",
         "        if owners.solid > 0 {",
         "        let lost = !owners.dangling.is_empty();
                  if owners.solid > 0 && !({on} && lost) {");
};
