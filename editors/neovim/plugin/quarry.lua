-- The commands; the rest is loaded when one is used.
if vim.g.loaded_quarry then
  return
end
vim.g.loaded_quarry = true

local function command(name, run, options)
  vim.api.nvim_create_user_command(name, run, options)
end

command("QuarrySearch", function(asked)
  require("quarry").search(require("quarry").parse(asked.args))
end, {
  nargs = "*",
  desc = "Find code by a description or a symbol",
  complete = function(typed)
    return vim.tbl_filter(function(name)
      return vim.startswith(name, typed)
    end, require("quarry").filter_names())
  end,
})

command("QuarrySimilar", function()
  require("quarry").similar()
end, { desc = "Find code similar to the code at the cursor" })

command("QuarryCallers", function(asked)
  require("quarry").callers(asked.args)
end, { nargs = "?", desc = "List the callers of a name, or of the definition at the cursor" })

command("QuarryCallees", function(asked)
  require("quarry").callees(asked.args)
end, { nargs = "?", desc = "List what a name, or the definition at the cursor, calls" })
