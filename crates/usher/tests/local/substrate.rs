//! The local world keeps the promises of every world that a substrate can live in.

use usher_sim::contract::memory::Wish;
use usher_sim::contract::substrate;

use crate::stage::LocalStage;

async fn fresh() -> LocalStage {
    LocalStage::open(&Wish::default()).await
}

// Requirement: LW-2
#[tokio::test]
async fn a_name_that_was_never_used_is_absent() {
    substrate::a_name_that_was_never_used_is_absent(&fresh().await).await;
}

// Requirement: LW-2
#[tokio::test]
async fn a_create_may_be_repeated_and_makes_one_object() {
    substrate::a_create_may_be_repeated_and_makes_one_object(&fresh().await).await;
}

// Requirement: K-16, LW-2
#[tokio::test]
async fn a_name_that_is_taken_is_foreign_and_left_alone() {
    substrate::a_name_that_is_taken_is_foreign_and_left_alone(&fresh().await).await;
}

// Requirement: LW-2
#[tokio::test]
async fn a_substrate_whose_name_is_taken_is_foreign() {
    substrate::a_substrate_whose_name_is_taken_is_foreign(&fresh().await).await;
}

// Requirement: LW-3
#[tokio::test]
async fn an_apply_needs_the_object_that_was_seen() {
    substrate::an_apply_needs_the_object_that_was_seen(&fresh().await).await;
}

// Requirement: LW-4
#[tokio::test]
async fn nothing_stays_under_an_anchor_that_is_gone() {
    substrate::nothing_stays_under_an_anchor_that_is_gone(&fresh().await).await;
}

// Requirement: LW-4
#[tokio::test]
async fn what_stands_under_an_anchor_goes_with_it() {
    substrate::what_stands_under_an_anchor_goes_with_it(&fresh().await).await;
}

// Requirement: K-16, LW-3
#[tokio::test]
async fn a_deletion_names_its_object() {
    substrate::a_deletion_names_its_object(&fresh().await).await;
}

// Requirement: LW-5
#[tokio::test]
async fn a_substrate_says_what_it_composed() {
    substrate::a_substrate_says_what_it_composed(&fresh().await).await;
}

// Requirement: LW-5
#[tokio::test]
async fn a_deletion_ends_with_every_part_gone() {
    substrate::a_deletion_ends_with_every_part_gone(&fresh().await).await;
}

// Requirement: LW-7
#[tokio::test]
async fn what_was_taken_away_is_absent_and_wakes_its_life() {
    substrate::what_was_taken_away_is_absent_and_wakes_its_life(&fresh().await).await;
}

// Requirement: LW-7
#[tokio::test]
async fn a_change_wakes_its_life() {
    substrate::a_change_wakes_its_life(&fresh().await).await;
}

// Requirement: LW-6
#[tokio::test]
async fn another_world_proves_no_absence() {
    substrate::another_world_proves_no_absence(&fresh().await).await;
}

// Requirement: LW-6
#[tokio::test]
async fn a_world_that_forgot_proves_no_absence() {
    substrate::a_world_that_forgot_proves_no_absence(&fresh().await).await;
}

// Requirement: LW-6
#[tokio::test]
async fn a_world_that_does_not_answer_is_not_empty() {
    substrate::a_world_that_does_not_answer_is_not_empty(&fresh().await).await;
}

// Requirement: LW-1
#[tokio::test]
async fn a_life_walks_in_and_out() {
    substrate::a_life_walks_in_and_out(&fresh().await).await;
}

// Requirement: LW-1
#[tokio::test]
async fn a_lost_substrate_is_replaced() {
    substrate::a_lost_substrate_is_replaced(&fresh().await).await;
}

// Requirement: LW-7
#[tokio::test]
async fn a_tombstone_takes_away_what_came_back() {
    substrate::a_tombstone_takes_away_what_came_back(&fresh().await).await;
}
