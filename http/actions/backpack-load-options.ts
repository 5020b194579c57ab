/** The actors that spending in a Backpack touches: a revoked one lies in Postgres. */
export const toBackpackLoadOptions = (backpackId: string | null) => ({
  touch: backpackId === null ? [] : [{ kind: 'backpack' as const, id: backpackId }],
})
