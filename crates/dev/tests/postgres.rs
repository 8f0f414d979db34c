use rowlock_dev::postgres::Postgres;

#[test]
fn it_keeps_what_was_committed_when_it_is_stopped_at_once() {
    let server = Postgres::start().unwrap();
    server.sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    server.stop_at_once();
    assert!(server.sql("SELECT n FROM kept").is_err());
    server.start_again().unwrap();
    assert_eq!(server.sql("SELECT n FROM kept").unwrap(), "7");
}

#[test]
fn a_standby_follows_and_can_be_promoted() {
    let primary = Postgres::start().unwrap();
    primary.sql("CREATE TABLE kept (n int)").unwrap();
    let standby = primary.standby().unwrap();
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()").unwrap(), "t");
    primary.stop_at_once();
    standby.promote().unwrap();
    standby.sql("INSERT INTO kept VALUES (1)").unwrap();
}
