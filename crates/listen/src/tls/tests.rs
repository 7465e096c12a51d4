use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair,
    generate_simple_self_signed,
};

use super::*;

fn write_pair(files: &TlsFiles, name: &str) -> String {
    let made = generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

fn files(folder: &Path) -> TlsFiles {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    TlsFiles { certificate, key, client_ca: None }
}

/// The time that has to pass until the files are looked at again.
async fn next_check() {
    tokio::time::advance(CHECK_INTERVAL).await;
}

// Requirement: CN-7
#[tokio::test(start_paused = true)]
async fn changed_files_are_loaded_at_most_once_per_second() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    write_pair(&files, "a.example");
    let (mut tls, counts) = (Tls::from_files(files.clone(), &[b"h2"]).unwrap(), Counts::default());
    let first = tls.config(&counts);
    write_pair(&files, "b.example");
    assert!(Arc::ptr_eq(&first, &tls.config(&counts)), "too early");
    next_check().await;
    let second = tls.config(&counts);
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(second.alpn_protocols, [b"h2"]);
    next_check().await;
    assert!(Arc::ptr_eq(&second, &tls.config(&counts)), "unchanged");
    assert_eq!((counts.certificates_loaded(), counts.certificates_failed()), (1, 0));
}

// Requirement: CN-7
#[tokio::test(start_paused = true)]
async fn a_pair_that_does_not_match_keeps_the_old_one_and_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let first_pem = write_pair(&files, "a.example");
    let (mut tls, counts) = (Tls::from_files(files.clone(), &[]).unwrap(), Counts::default());
    let first = tls.config(&counts);
    let other = generate_simple_self_signed(vec!["b.example".to_owned()]).unwrap();
    for broken in [other.cert.pem(), "no certificate".to_owned(), String::new()] {
        let before = counts.certificates_failed();
        std::fs::write(&files.certificate, broken).unwrap();
        for _ in 0..3 {
            next_check().await;
            assert!(Arc::ptr_eq(&first, &tls.config(&counts)));
        }
        assert_eq!(counts.certificates_failed(), before + 1);
    }
    std::fs::remove_file(&files.certificate).unwrap();
    next_check().await;
    assert!(Arc::ptr_eq(&first, &tls.config(&counts)), "a missing file");
    std::fs::write(&files.certificate, first_pem).unwrap();
    next_check().await;
    assert!(!Arc::ptr_eq(&first, &tls.config(&counts)), "whole again");
    assert_eq!(counts.certificates_loaded(), 1);
}

// Requirement: CN-7
#[tokio::test(start_paused = true)]
async fn a_link_that_is_moved_is_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("..data");
    for version in ["1", "2"] {
        std::fs::create_dir(dir.path().join(version)).unwrap();
        write_pair(&files(&dir.path().join(version)), "a.example");
    }
    std::os::unix::fs::symlink("1", &link).unwrap();
    let (mut tls, counts) = (Tls::from_files(files(&link), &[]).unwrap(), Counts::default());
    let first = tls.config(&counts);
    std::os::unix::fs::symlink("2", dir.path().join("next")).unwrap();
    std::fs::rename(dir.path().join("next"), &link).unwrap();
    next_check().await;
    assert!(!Arc::ptr_eq(&first, &tls.config(&counts)));
}

#[test]
fn unusable_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = files(dir.path());
    let refused = |files: &TlsFiles| chain(&Tls::from_files(files.clone(), &[]).unwrap_err());
    assert!(refused(&files).contains("tls.crt"), "{}", refused(&files));
    write_pair(&files, "a.example");
    files.client_ca = Some(dir.path().join("ca.crt"));
    assert!(refused(&files).contains("ca.crt"), "{}", refused(&files));
    std::fs::write(dir.path().join("ca.crt"), "nothing").unwrap();
    assert!(refused(&files).contains("has no certificate in PEM"), "{}", refused(&files));
    std::fs::write(dir.path().join("ca.crt"), authority()).unwrap();
    Tls::from_files(files, &[]).unwrap();
}

fn authority() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap().pem()
}
