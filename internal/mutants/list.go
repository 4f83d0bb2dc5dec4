package main

// areas are all mutants.
func areas() []Area {
	return []Area{tableArea(), conditionsArea(), evidenceArea(), planArea(), releaseArea(), storedArea(), kubeArea(), restoreArea(), agentArea(), serveArea()}
}
