//! Questions about users, permissions and tokens.

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};

use crate::call;

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const SUBJECT: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";

fn question(group: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec})
}

/// A server with the service account `robot`.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build().await.expect("a server");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(call(&server.client(), "POST", accounts, Some(&account)).await.0, 201);
    server
}

async fn token(server: &ApiServer, spec: &Value) -> (u16, Value) {
    let request = question("authentication", "TokenRequest", spec);
    call(&server.client(), "POST", TOKEN, Some(&request)).await
}

// Requirement: AK-40
#[tokio::test]
async fn access_and_rules_reviews_are_answered() {
    let server = server().await;
    let client = server.client();
    let resource = json!({"verb": "delete", "resource": "configmaps", "namespace": "default"});
    let own = question(
        "authorization",
        "SelfSubjectAccessReview",
        &json!({"resourceAttributes": resource}),
    );
    let (code, answer) = call(&client, "POST", ACCESS, Some(&own)).await;
    assert_eq!((code, &answer["status"]), (201, &json!({"allowed": true})), "{answer}");
    assert_eq!(answer["spec"], own["spec"]);
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    let own = question("authorization", "SelfSubjectAccessReview", &path);
    let (code, answer) = call(&client, "POST", ACCESS, Some(&own)).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(true)), "{answer}");

    let both = json!({"resourceAttributes": resource, "nonResourceAttributes": {}, "user": "a"});
    let wrong = question("authorization", "SubjectAccessReview", &both);
    let (code, answer) = call(&client, "POST", SUBJECT, Some(&wrong)).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{answer}");
    let unnamed = json!({"resourceAttributes": resource});
    let wrong = question("authorization", "SubjectAccessReview", &unnamed);
    let message = "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.user: Invalid \
                   value: \"\": at least one of user or group must be specified";
    let (code, answer) = call(&client, "POST", SUBJECT, Some(&wrong)).await;
    assert_eq!((code, &answer["message"]), (422, &json!(message)), "{answer}");
    let anonymous = json!({"resourceAttributes": resource, "user": "system:anonymous"});
    for (path, kind) in [(SUBJECT, "SubjectAccessReview"), (LOCAL, "LocalSubjectAccessReview")] {
        let asked = question("authorization", kind, &anonymous);
        let (code, answer) = call(&client, "POST", path, Some(&asked)).await;
        assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(false)), "{answer}");
    }
    let namespace = json!({"namespace": "default"});
    let asked = question("authorization", "SelfSubjectRulesReview", &namespace);
    let (code, answer) = call(&client, "POST", RULES, Some(&asked)).await;
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    assert_eq!(code, 201, "{answer}");
    let rules = answer["status"]["resourceRules"].as_array().expect("rules");
    assert!(rules.contains(&all[0]), "{answer}");
    assert_eq!(answer["status"]["incomplete"], json!(false));
    for (method, path) in [("GET", ACCESS), ("DELETE", ACCESS), ("GET", TOKEN)] {
        assert_eq!(call(&client, method, path, None).await.0, 405, "{method} {path}");
    }
}

// Requirement: AK-40
#[tokio::test]
async fn a_self_subject_review_names_the_user() {
    let server = server().await;
    let asked = question("authentication", "SelfSubjectReview", &Value::Null);
    for user in [User::admin("boss"), User::with_groups("ann", &["a", "system:authenticated"])] {
        let client = server.client_as(user.clone());
        let (code, answer) = call(&client, "POST", SELF, Some(&asked)).await;
        let info = json!({"username": user.name, "groups": user.groups});
        assert_eq!((code, &answer["status"]["userInfo"]), (201, &info), "{answer}");
    }
}

// Requirement: AK-41
#[tokio::test]
async fn a_token_of_a_service_account_authenticates_it() {
    let server = server().await;
    let (code, issued) = token(&server, &json!({"expirationSeconds": 600})).await;
    assert_eq!(code, 201, "{issued}");
    assert!(issued["status"]["expirationTimestamp"].is_string(), "{issued}");
    assert_eq!(issued["metadata"]["name"], "robot");
    let review = |spec: Value| {
        let client = server.client();
        async move {
            let asked = question("authentication", "TokenReview", &spec);
            let (code, answer) = call(&client, "POST", TOKENS, Some(&asked)).await;
            assert_eq!(code, 201, "{answer}");
            answer["status"].clone()
        }
    };
    let text = issued["status"]["token"].clone();
    let status = review(json!({"token": text})).await;
    let user = &status["user"];
    assert_eq!(
        (&status["authenticated"], &user["username"], &user["groups"]),
        (
            &json!(true),
            &json!("system:serviceaccount:default:robot"),
            &json!([
                "system:serviceaccounts",
                "system:serviceaccounts:default",
                "system:authenticated",
            ]),
        )
    );
    let foreign = review(json!({"token": text, "audiences": ["other"]})).await;
    assert_eq!((&foreign["authenticated"], &foreign["user"]), (&Value::Null, &json!({})));
    let forged = format!("{}x", text.as_str().expect("a token"));
    assert_eq!(review(json!({"token": forged})).await["authenticated"], Value::Null);
    let account = "/api/v1/namespaces/default/serviceaccounts/robot";
    assert_eq!(call(&server.client(), "DELETE", account, None).await.0, 200);
    let status = review(json!({"token": text})).await;
    assert_eq!(status["authenticated"], Value::Null, "the account of the token is gone");
}

// Requirement: AK-41
#[tokio::test]
async fn a_token_ends_with_its_secret_and_is_validated() {
    let server = server().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}});
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": "key"});
    let spec = json!({"boundObjectRef": reference});
    assert_eq!(token(&server, &spec).await.0, 404);
    let secrets = "/api/v1/namespaces/default/secrets";
    let client = server.client();
    assert_eq!(call(&client, "POST", secrets, Some(&secret)).await.0, 201);
    let (code, issued) = token(&server, &spec).await;
    assert_eq!(code, 201, "{issued}");
    assert_eq!(call(&client, "DELETE", &format!("{secrets}/key"), None).await.0, 200);
    let asked =
        question("authentication", "TokenReview", &json!({"token": issued["status"]["token"]}));
    let (_, answer) = call(&client, "POST", TOKENS, Some(&asked)).await;
    assert_eq!(answer["status"]["authenticated"], Value::Null, "{answer}");

    let (code, answer) = token(&server, &json!({"expirationSeconds": 1})).await;
    let message = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: \
                   Invalid value: 1: may not specify a duration less than 10 minutes";
    assert_eq!((code, &answer["message"]), (422, &json!(message)), "{answer}");
    let pod = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
    let (code, answer) = token(&server, &pod).await;
    let message = "cannot bind token to object of type v1, Kind=Pod";
    assert_eq!((code, &answer["message"]), (400, &json!(message)), "{answer}");
}
