package style

// An exception is a text of a defect that is accepted in a file, or in a folder if the path ends with a slash.
type exception struct{ path, text, why string }

var (
	wide = []exception{
		{"ippool/check_test.go", `"metadata": `, "an object of a test"},
		{"ippool/reservation_test.go", "metadata: ", "an object of a test"},
		{"cmd/ip-reconcile/commands.go", "kubectl get ", "a command to paste"},
		{"cmd/ip-reconcile/secrets_test.go", "apiVersion: ", "a file of a test"},
		{"reconciler/snapshot/copies_test.go", "metadata: ", "files of a test"},
		{"reconciler/snapshot/lean_test.go", `{"`, "a file of a test"},
	}
	undocumented = []exception{
		{"api/v1alpha1/types.go", "the comment of text", "it would be the description of each field in the CRD"},
	}
	messages = []exception{
		{"reconciler/serve/recorder.go", "reconciler run", upstream},
		{"cmd/ip-reconciler/main.go", "reconciler run", upstream},
		{"reconciler/serve/recorder.go", "cleanup", upstream},
		{"reconciler/serve/recorder.go", "removed stale", upstream},
	}
)

const upstream = "whereabouts' own message, for which people search their logs"
