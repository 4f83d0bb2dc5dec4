package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A container's limit counts from the start, in each of the programs in the image.
func TestKeepSmall_EveryProgramBeginsWithIt(t *testing.T) {
	programs, err := filepath.Glob("../../../cmd/ip-*/main.go")
	if err != nil || len(programs) != 3 {
		t.Fatal(programs, err)
	}
	for _, file := range programs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "func main() {")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !strings.Contains(body, "memory.KeepSmall(") {
			t.Errorf("%s does not begin with memory.KeepSmall", file)
		}
	}
}
