/** Text embeddings. Null in `ToolPorts` without a configured provider. */
export interface EmbeddingsClient {
  readonly model: string
  /**
   * Returns one unit vector per text, in order. Rejects with `upstream_error`, `upstream_timeout`,
   * `upstream_schema` or `upstream_rate_limited`, each with the provider.
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>
}
