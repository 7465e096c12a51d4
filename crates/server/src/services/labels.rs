//! Labels on the installation, on projects and on resources.

use async_trait::async_trait;
use usher_api::ports::{Answer, LabelLayers};
use usher_api::views::{Caller, Layer};
use usher_domain::audit::Action;
use usher_domain::labels::{Definition, check_count};
use usher_domain::object::id::{ProjectId, ResourceId};
use usher_domain::object::label::Labels;
use usher_store::WorkItem;

use super::{Services, failure};

/// Resources per page.
const PAGE: u32 = 500;

#[async_trait]
impl LabelLayers for Services {
    async fn get(&self, layer: Layer) -> Answer<Labels> {
        self.known(layer).await?;
        self.store.labels(stored(layer)).await.map_err(failure)
    }

    async fn write(&self, caller: &Caller, layer: Layer, labels: Labels) -> Answer<Labels> {
        check_count(&labels)?;
        let (project, subject) = self.known(layer).await?;
        let audited = self.with_audit(caller, Action::LabelWrite, (project, subject));
        audited.write_labels(stored(layer), labels.clone()).await.map_err(failure)?;
        match layer {
            Layer::Installation => self.wake_reached(None).await?,
            Layer::Project(project) => self.wake_reached(Some(project)).await?,
            Layer::Resource(id) => {
                self.store.wake(WorkItem::Resource(id)).await.map_err(failure)?;
            }
        }
        Ok(labels)
    }

    async fn definitions(&self) -> Answer<Vec<Definition>> {
        self.store.label_definitions().await.map_err(failure)
    }

    async fn define(&self, caller: &Caller, it: Definition) -> Answer<Definition> {
        let audited = self.with_audit(caller, Action::LabelDefine, (None, it.key.to_string()));
        audited.define_label(it.clone()).await.map_err(failure)?;
        self.wake_reached(None).await?;
        Ok(it)
    }
}

impl Services {
    /// The project and the audit subject of a layer; refused if its owner does not exist.
    async fn known(&self, layer: Layer) -> Answer<(Option<ProjectId>, String)> {
        match layer {
            Layer::Installation => Ok((None, "installation".to_owned())),
            Layer::Project(id) => {
                let project = self.project(id).await?;
                Ok((Some(id), project.slug.to_string()))
            }
            Layer::Resource(id) => {
                let project = self.record(id).await?.state.fields().project;
                Ok((Some(project), id.to_string()))
            }
        }
    }

    async fn wake_reached(&self, project: Option<ProjectId>) -> Answer<()> {
        let mut after: Option<ResourceId> = None;
        loop {
            let ids = self.store.resources_after(project, after, PAGE).await.map_err(failure)?;
            let Some(last) = ids.last() else { return Ok(()) };
            after = Some(*last);
            for id in ids {
                if self.record(id).await?.state.fields().outcome.is_none() {
                    self.store.wake(WorkItem::Resource(id)).await.map_err(failure)?;
                }
            }
        }
    }
}

fn stored(layer: Layer) -> usher_store::Layer {
    match layer {
        Layer::Installation => usher_store::Layer::Installation,
        Layer::Project(id) => usher_store::Layer::Project(id),
        Layer::Resource(id) => usher_store::Layer::Resource(id),
    }
}
