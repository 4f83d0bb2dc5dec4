package sysdump

// Newest reads a log as kubelet serves it, which no fake does.
var Newest = newest
