using module Shop
using namespace System.IO
Import-Module -Name Other
. ./helpers.ps1

function Start-All($Items) {
    $sum = Add-Number -A 1 -B 2
    Get-ChildItem | Where-Object { Test-It $_ }
    $list.Add($sum)
    [Cart]::new('a').Load()
    [Math]::Max(1, 2)
    & Invoke-Later
}
