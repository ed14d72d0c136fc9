package sqlite

import "testing"

// Pragma reads a setting of the store's own connection.
func Pragma(t testing.TB, s *Store, name string) (value string) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
