-- Processes that read listen for changes of what branches serve, and need not ask several times a second.
CREATE FUNCTION announce_branches() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('narthex_branches', '');
  RETURN NULL;
END $$;
CREATE TRIGGER branches_announced AFTER INSERT OR UPDATE OR DELETE ON branch
  FOR EACH STATEMENT EXECUTE FUNCTION announce_branches();
