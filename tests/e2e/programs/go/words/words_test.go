package words

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSorted(t *testing.T) {
	if got := Sorted([]string{"b", "a"}); got[0] != "a" {
		t.Fatal(got)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
