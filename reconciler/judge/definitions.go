package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// DefinitionsOf names the NetworkAttachmentDefinitions, as "<namespace>/<name>" and sorted,
// whose networks a pool is of. One that cannot be read is not among them.
func (j *Judgement) DefinitionsOf(p *ippool.Pool) []string {
	var names []string
	if p.Problem != "" {
		return nil
	}
	pool := j.x.indexed(p)
	for name, nad := range j.x.nads {
		if pool.mapped(nad) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
