package agentcmd

import (
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
)

// boundMemory keeps the agent's memory small, since there is one on every node: the
// heap is collected early, and the pages of the program's own file that its start
// touched are dropped. Most of the program is for the other commands.
func boundMemory() {
	memory.Bound(80, 48<<20) // pods with huge annotations make huge answers
	memory.DropFilePages()
}
