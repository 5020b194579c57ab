/** The CLI command that grants promotional credits to an agent, for messages. */
export const grantCliCommandText = (agentId: string): string =>
  `gas grant ${agentId} <usdc> --note <why>`
