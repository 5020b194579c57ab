/** The CLI command that grants promotional credits to an agent, for messages. */
export const grantCliCommand = (agentId: string): string =>
  `gas grant ${agentId} <usdc> --note <why>`
