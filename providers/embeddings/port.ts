/** Texts as directions: near ones mean alike. Null in `ToolPorts` while the operator has no provider. */
export interface EmbeddingsClient {
  readonly model: string
  /**
   * One vector of length one a text, in their order. Rejects with `upstream_error`,
   * `upstream_timeout`, `upstream_schema` or `upstream_rate_limited`, which carry the provider.
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>
}
